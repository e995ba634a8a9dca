// Tells a process that it is a forked child, also where no handler of fork() ran: after _Fork() and
// clone() or fork as bare system calls. A handler may leave its work to the first caller that asks.
// Asking is hot: one load and one comparison.
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
  // False in a forked child, until renew(); what was done before that is seen then.
  [[nodiscard]] bool here() const { return value() == kHere; }
  // A child is noticed, whether handlers run in it or not.
  [[nodiscard]] bool is_open() const {
    return mark_.load(std::memory_order_relaxed) != &kAlwaysHere;
  }
  void renew() { set(kHere); }
  // A handler of fork() has run in this child, which is not here() yet. A child of it starts again.
  void tell() { set(kTold); }
  [[nodiscard]] bool told() const { return value() == kTold; }

 private:
  static constexpr char kHere = 1;
  static constexpr char kTold = 2;
  static constexpr char kAlwaysHere = kHere;
  [[nodiscard]] char value() const {
    return __atomic_load_n(mark_.load(std::memory_order_acquire), __ATOMIC_ACQUIRE);
  }
  void set(char value);

  std::atomic<const char*> mark_{&kAlwaysHere};
};

}  // namespace memo
