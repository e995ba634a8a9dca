// The pool: one arena for all threads, from which every block comes that no plan places. Hot.
//
// One pool and not one a thread: what a thread has freed serves the next that asks, so the peak is
// the process' own. Only learning, pooling and fallbacks come here, so its lock is seldom wanted
// twice; a caller waits for a moment and then goes to the next allocator, and frees take no lock at
// all. Source: PRMalloc, 2.1 (a pool of tensor memory shared by the threads of a data-flow graph).
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/lock.h"
#include "src/base/tuning.h"
#include "src/serve/arena.h"
#include "src/serve/headroom.h"
#include "src/serve/returned.h"

namespace memo {

class Pool {
 public:
  // As the arena's. Before the first block.
  void open(Space* space, bool huge_pages) {
    space_ = space;
    arena_.open(space, huge_pages);
    headroom_.open();
  }

  // What a control group leaves for the pool and for the slabs.
  [[nodiscard]] const Headroom& headroom() const { return headroom_; }

  // A block for lane `owner`; none where there is no memory, or others hold the lock for long. Any thread.
  Arena::Block allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint16_t owner) {
    if (!enter()) {
      return {.busy = true};
    }
    const Arena::Block block = arena_.allocate(bytes, alignment);
    if (block.start != nullptr) {
      space_->note(space_->granule_of(block.start)).store(owner, std::memory_order_relaxed);
    }
    lock_.unlock();
    return block;
  }
  bool resize(void* start, std::uint64_t bytes) {
    return enter() && leave(arena_.resize(start, bytes));
  }
  // What goes back to the system when it is freed.
  Returned returned;
  // A recorded program is played again, whose blocks nobody writes: all of them count as written, and nobody looks.
  void take_as_written() { looks_ = false; }
  [[nodiscard]] bool looks() const { return looks_; }
  // Releases the block that starts at `start`; false if none does. `spare`: its bytes, if it is worth keeping for the next
  // one alone. Takes no lock. Any thread.
  bool free(void* start, bool at_once, std::uint64_t spare = 0) {
    const Arena::Keep left = looks_ ? Arena::Keep::kWritten : Arena::Keep::kAll;
    const bool freed = torn_ || arena_.free(start, at_once ? Arena::Keep::kNone : left);
    if (freed && !torn_ && spare != 0) {
      arena_.spare(start, spare);
    }
    return freed;
  }
  // The lane of the block that starts at `start`.
  [[nodiscard]] std::uint16_t owner(const void* start) const {
    return space_->note(space_->granule_of(start)).load(std::memory_order_relaxed);
  }

  // As the arena's; bytes given back. For callers of malloc, who tell how much.
  std::uint64_t trim(std::uint64_t bytes, std::uint64_t less = Arena::kAll) {
    return enter() ? leave(arena_.trim(bytes, less)) : 0;
  }
  std::uint64_t age(std::uint64_t bytes) { return enter() ? leave(arena_.age(bytes)) : 0; }
  // All of it, in portions between which others have the lock: on request, and for a thread that
  // has the time.
  std::uint64_t trim() {
    const std::uint64_t first = trim(tuning::kMaxGivenBack);
    return first + settle();
  }
  std::uint64_t settle() {
    std::uint64_t sum = 0;
    for (std::uint64_t done = tuning::kMaxGivenBack; done != 0; sum += done) {
      done = enter() ? leave(arena_.settle(tuning::kMaxGivenBack)) : 0;
    }
    return sum;
  }
  // Gives up the committed memory behind the last block, which trim() has given back; bytes.
  std::uint64_t retreat() { return enter() ? leave(arena_.retreat()) : 0; }
  void allow_slack(std::uint64_t divisor, bool loop = false) {
    arena_.books().allow_slack(divisor, loop);
  }
  // The arena's figures, which any thread may read.
  [[nodiscard]] const Holding& held() const { return arena_.held(); }
  // As the arena's. A pool that was given up has no books to agree.
  [[nodiscard]] bool valid() const { return torn_ || arena_.valid(); }
  [[nodiscard]] Space& space() const { return *space_; }

  // Around fork(): the child must find the books whole.
  [[nodiscard]] Lock& lock() { return lock_; }
  // In a forked child: a thread that does not exist there was at work on the books. No block is
  // given out any more, and what is freed stays where it is.
  void give_up() {
    torn_ = true;
    lock_.forget_owner();
  }

 private:
  friend class Carrying;
  [[nodiscard]] bool enter() const { return !torn_ && lock_.lock_within(Lock::Patience::kCall); }
  template <typename Result>
  Result leave(Result result) const {
    lock_.unlock();
    return result;
  }

  Space* space_ = nullptr;
  Arena arena_;
  Headroom headroom_;
  mutable Lock lock_;
  bool torn_ = false;
  bool looks_ = true;
};

}  // namespace memo
