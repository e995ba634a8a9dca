// Tells a process that it is a forked child, also where no handler of fork() ran: after _Fork() and
// clone() or fork as bare system calls. Hot to ask: one load and one comparison.
//
// The mark is a byte in a page that the kernel empties in each child (MADV_WIPEONFORK, Linux 4.14).
// A child that shares its parent's memory (vfork) is none, and finds the mark. Where the kernel
// refuses the advice, only handlers tell.
#pragma once

#include <atomic>

namespace memo {

class ForkMark {
 public:
  // Takes the page; false where the system refuses it: then no child is ever noticed.
  // Once is enough, any thread.
  bool open();
  // False in a forked child, until renew().
  [[nodiscard]] bool here() const {
    return __atomic_load_n(mark_.load(std::memory_order_acquire), __ATOMIC_RELAXED) != 0;
  }
  void renew();

 private:
  static constexpr char kAlwaysHere = 1;
  std::atomic<const char*> mark_{&kAlwaysHere};
};

}  // namespace memo
