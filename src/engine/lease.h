// Whose a lane is, and what its owner is to be told at its next call: one word, so that a call asks for both by one
// comparison. Hot.
//
// Who has entered the lane changes it, but for what says otherwise. A former owner's calls find another thread's name, or
// none, and look for another lane.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/guard.h"

namespace memo {

class Lease {
 public:
  enum Word : std::uint64_t {
    kGivenBack = 1,  // the slab's memory was given back since the last call
    kForked = 2,     // a fork has interrupted the lane: it is to start anew
  };

  // The calling thread has the lane, and there is nothing to be told.
  [[nodiscard]] bool plain() const { return word_.load(std::memory_order_relaxed) == myself(); }
  [[nodiscard]] bool mine() const { return (read() & ~kWords) == myself(); }
  // Nobody has the lane, or its owner will not come back and has left it as it was.
  [[nodiscard]] bool vacant() const { return owner() == 0 || abandoned(); }
  [[nodiscard]] bool abandoned() const { return (read() & kAbandoned) != 0; }
  // There is something to be told. Any thread.
  [[nodiscard]] bool has_words() const { return (read() & kWords) != 0; }

  // The calling thread has it from now on.
  void begin() { word_.store(myself(), std::memory_order_release); }
  void end() { word_.store(0, std::memory_order_release); }
  // The owner has it no more, and what it leaves is not yet in order: who finds it so in a forked child knows.
  void seize() { word_.store(kAbandoned, std::memory_order_release); }
  // The calling thread, if it is the owner, will not come back. It need not have entered.
  void abandon() {
    std::uint64_t word = read();
    while ((word & ~kWords) == myself() && !word_.compare_exchange_weak(word, word | kAbandoned)) {
    }
  }
  // Nor will the owner, who does not exist: in a forked child.
  void orphan() { word_.fetch_or(kAbandoned, std::memory_order_relaxed); }

  void tell(Word word) { word_.fetch_or(word, std::memory_order_relaxed); }
  // What the owner is told, as a sum; it is told once.
  std::uint64_t take_words() {
    return word_.fetch_and(~kWords, std::memory_order_relaxed) & kWords;
  }

 private:
  // Below the owner's address in the word.
  static constexpr std::uint64_t kWords = kGivenBack | kForked;
  static constexpr std::uint64_t kAbandoned = 4;
  static_assert(alignof(ThreadState) > (kWords | kAbandoned));

  // As in a lock, a thread's state names the thread.
  static std::uint64_t myself() { return reinterpret_cast<std::uint64_t>(&t_state); }
  [[nodiscard]] std::uint64_t read() const { return word_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t owner() const { return read() & ~(kWords | kAbandoned); }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace memo
