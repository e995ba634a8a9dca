// A lock that a caller inside malloc may try, and never waits for unless it holds for a few
// instructions. Hot. Nothing is called out to while one is held.
#pragma once

#include <sched.h>
#include <atomic>

namespace memo {

class SpinLock {
 public:
  bool try_lock() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    while (!try_lock()) {
      sched_yield();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// Tries a lock for a scope; false if somebody else has it.
class TryLock {
 public:
  explicit TryLock(SpinLock& lock) : lock_(lock), held_(lock.try_lock()) {}
  ~TryLock() {
    if (held_) {
      lock_.unlock();
    }
  }
  TryLock(const TryLock&) = delete;
  TryLock& operator=(const TryLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  SpinLock& lock_;
  bool held_;
};

class ScopedLock {
 public:
  explicit ScopedLock(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~ScopedLock() { lock_.unlock(); }
  ScopedLock(const ScopedLock&) = delete;
  ScopedLock& operator=(const ScopedLock&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace memo
