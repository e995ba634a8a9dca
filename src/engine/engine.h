// The engine: what a request meets first. Hot. One constinit object per process
// (preload/lifecycle.cc), or as many as a unit test likes.
//
// It answers nullptr for "not mine"; only its caller knows the underlying allocator.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/options.h"
#include "src/base/tuning.h"
#include "src/engine/forks.h"
#include "src/engine/give_back.h"
#include "src/engine/lanes.h"
#include "src/engine/plans.h"

namespace memo {

// What lies at an address of the engine's region.
struct Place {
  const void* start = nullptr;
  std::uint64_t bytes = 0;  // of the block, in whole granules; 0: there is none
  bool in_use = false;      // else a block started there last, and is free
  bool in_slab = false;     // else in the pool
  std::uint32_t lane = 0;   // whose slab it is, or for whom the pool gave it
};

class Engine {
 public:
  constexpr Engine() = default;

  // Takes the options; nothing is set up before the first large allocation. Once, before
  // allocate().
  void configure(const Options& options, const EngineHost& host) { lanes.configure(options, host); }

  // A block for the request, or nullptr: the underlying allocator's. Any thread. Requires size >=
  // 1.
  void* allocate(const Request& request);
  // True if the pointer lies in the engine's region; free, size and resize take such pointers only.
  [[nodiscard]] bool owns(const void* pointer) const { return lanes.region.owns(pointer); }
  // Releases the block; false if none starts at `pointer`. `bare`: carry() says so. Any thread.
  bool free(void* pointer, bool bare = false);
  // Usable bytes of the block, 0 if none starts at `pointer`.
  [[nodiscard]] std::uint64_t size(const void* pointer) const;
  // Changes the size in place where that is possible without waste.
  bool resize(void* pointer, std::uint64_t bytes);

  // Copies the first `bytes` of the block at `from` to the one at `to`, which is fresh; `zeros`: it
  // is not the engine's, and reads as zeros. True if `from` has no memory any more: it is to be
  // freed as a bare one.
  bool carry(void* from, void* to, std::uint64_t bytes, bool zeros = false);

  // The program changes what the pages of [start, start + bytes) are: protection, mapping, advice.
  // Blocks of ours in it get new ones when they are freed. Any thread.
  void note_altered(const void* start, std::uint64_t bytes);
  // The program has asked for huge pages there: in the pool they end where memory is given back.
  // Any thread.
  void note_huge(const void* start, std::uint64_t bytes);
  // As note_altered(), and what is free in it is given to nobody.
  void note_taken_out(const void* start, std::uint64_t bytes);
  // The same, and others lie there from now on.
  void note_replaced(const void* start, std::uint64_t bytes);
  // The same, and whose it is now is not known: blocks of ours in it are never freed.
  void note_lost(const void* start, std::uint64_t bytes);

  // [start, start + bytes) is inside of one block, of whose pages nothing was noted.
  [[nodiscard]] bool is_unaltered(const void* start, std::uint64_t bytes) const;

  // What lies at the pointer, for messages: the block in use that it points into, or the freed one
  // that started there.
  [[nodiscard]] Place find(const void* pointer) const;
  // True if a block of the engine may have been asked for with `bytes`: a size that a sized free
  // names. A block of a slab may have been made smaller by resize(), down to half of it.
  [[nodiscard]] bool may_have_size(const void* pointer, std::uint64_t bytes) const;
  // A block was left larger than the host asked for, since there was no other memory: from now on
  // no size is too small.
  void note_left_larger() { left_larger_.store(true, std::memory_order_relaxed); }

  // The host begins an iteration on the calling thread.
  void iteration();
  // A block of the underlying allocator has grown to `bytes`, which is large, by realloc.
  void note_foreign_growth(std::uint64_t bytes);
  // Counts a large call that no lane takes and the underlying allocator gets, and answers nullptr.
  // Out of line, for a fast path without a frame.
  [[gnu::cold, gnu::noinline]] void* pass_on(std::uint64_t bytes, Counter Counters::* reason);

  void thread_ended();
  // As forks.before(), which begins a fork. Under strict overcommit unused memory is given up
  // first.
  void before_fork();

  Lanes lanes;
  Forks forks{lanes};
  GiveBack give_back{lanes, forks};
  Plans plans{lanes};

 private:
  [[gnu::noinline]] void* allocate_with_care(const Request& request);

  std::atomic<bool> left_larger_{false};
};

}  // namespace memo
