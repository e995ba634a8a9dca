// A lock that is never waited for in vain: it knows its owner, and every wait has an end. Hot.
//
// The owner may be interrupted anywhere, by a handler that allocates, forks, ends the thread or
// jumps away. A thread that already holds the lock fails at once. A thread that finds it held by
// another sleeps in the kernel, so that an owner of lower priority gets to run, and gives up in the
// end. A thread that holds a lane's lock may wait for the store's or the pool's, never the reverse.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/check.h"
#include "src/base/guard.h"
#include "src/base/units.h"

namespace memo {

class Lock {
 public:
  // How long others are waited for. An owner that does not come back (a handler jumped out of it)
  // is waited for once of each kind: as long as it has the lock, later waits end at once.
  enum class Patience : std::uint8_t {
    // For a call that can do without. An owner that lost its processor gets it back when the others
    // have had their turns.
    kCall,
    kFork,  // longer, for what a forked child would lack for life, and for a process' last report
  };

  bool try_lock() {
    std::uint64_t unlocked = 0;
    return word_.compare_exchange_strong(unlocked, myself(), std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  // False if this thread has the lock already, or another for too long.
  bool lock_within(Patience patience);
  void unlock() {
    MEMO_DCHECK(held_by_me());
    if ((word_.exchange(0, std::memory_order_release) & kWaited) != 0) {
      wake();
    }
  }
  // The same for locks that are tried, and seldom waited for: one store. A waiter notices within a
  // millisecond.
  void unlock_quietly() { word_.store(0, std::memory_order_release); }

  [[nodiscard]] bool held_by_me() const { return owner() == myself(); }
  [[nodiscard]] bool held_by_another() const { return owner() != 0 && owner() != myself(); }
  // In a forked child, whose threads do not exist: nobody has the lock.
  void forget_owner() { unlock_quietly(); }

 private:
  // Below the owner's address in the word.
  static constexpr std::uint64_t kWaited = 1;     // somebody sleeps
  static constexpr std::uint64_t kStale = 2;      // kCall was not enough
  static constexpr std::uint64_t kStaleLong = 4;  // nor was kFork
  static constexpr std::uint64_t kFlags = kWaited | kStale | kStaleLong;
  static_assert(alignof(ThreadState) > kFlags);

  // The thread's state lies in its thread-local storage, so that the address names the thread, and
  // in a forked child the one that has forked.
  static std::uint64_t myself() { return reinterpret_cast<std::uint64_t>(&t_state); }
  [[nodiscard]] std::uint64_t owner() const {
    return word_.load(std::memory_order_relaxed) & ~kFlags;
  }
  void wake();
  void sleep(std::uint64_t word, Nanos time);

  std::atomic<std::uint64_t> word_{0};  // the owner and the flags; 0: nobody's
};

// Tries a lock for a scope; false if somebody has it.
class TryLock {
 public:
  explicit TryLock(Lock& lock) : lock_(lock), held_(lock.try_lock()) {}
  ~TryLock() {
    if (held_) {
      lock_.unlock_quietly();
    }
  }
  TryLock(const TryLock&) = delete;
  TryLock& operator=(const TryLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  Lock& lock_;
  bool held_;
};

// Waits for a lock for a scope; false if it was not to be had.
class WaitLock {
 public:
  explicit WaitLock(Lock& lock, Lock::Patience patience = Lock::Patience::kCall)
      : lock_(lock), held_(lock.lock_within(patience)) {}
  ~WaitLock() {
    if (held_) {
      lock_.unlock();
    }
  }
  WaitLock(const WaitLock&) = delete;
  WaitLock& operator=(const WaitLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  Lock& lock_;
  bool held_;
};

}  // namespace memo
