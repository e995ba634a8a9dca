// When unused memory is given back: on request, at rest, where memory is short; and what calls of
// the pool do about it now and then (src/engine/shared.h).
// Hot, as it is asked for inside of calls that were refused memory, though each of its functions
// takes long.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/backoff.h"
#include "src/engine/forks.h"
#include "src/engine/lanes.h"

namespace memo {

class GiveBack {
 public:
  constexpr GiveBack(Lanes& lanes, Forks& forks) : lanes_(lanes), forks_(forks) {}

  // Gives all slabs and unused memory back, on request. Any thread.
  void all();
  // Gives unused memory outside the slabs back; true if there was some. Any thread.
  bool trim();
  // The underlying allocator was refused memory for a block of `bytes`: gives up what slabs, pool
  // and that allocator hold and do not use, so that a limit on data, or on what may be committed,
  // is met as early as without this library. True if it is worth asking again. Costs milliseconds
  // and the faults of taking the memory again, so a program that is refused time and again is
  // helped less and less often. Any thread.
  bool relieve(std::uint64_t bytes);
  // Gives memory back where a lane has been quiet for long. True at rest: all lanes have been, and
  // no slab has memory. One thread at a time; `now` of the monotonic clock.
  bool tick(Nanos now);
  // A group's limit ends a process that grows by small blocks, mappings or children: where its room
  // is tight, and no large call comes for a while, the system may take what is held and not used
  // before it comes to that. Until then it is there for the next call. To be called after each
  // until_look() again. One thread at a time; `now` as tick()'s.
  void look_for_pause(Nanos now);
  [[nodiscard]] Nanos until_look() const;

 private:
  [[nodiscard]] bool waits_for_pause() const;
  [[nodiscard]] Nanos pause() const { return pause_ * tuning::kIdle; }
  void free_lazily();

  Lanes& lanes_;
  Forks& forks_;
  // Bytes of the pool that the last tick left, at rest; UINT64_MAX: it was none.
  std::uint64_t left_ = UINT64_MAX;
  Backoff relief_;  // refusals that relieve() lets pass
  // Bytes of the pool's blocks when relieve() last gave too little: what is freed since may go.
  std::atomic<std::uint64_t> live_in_vain_{0};
  IdleClock calls_;
  bool in_pause_ = false;  // all is the system's to take
  // So many times kIdle without a call are a pause: each after which calls came again doubles it.
  std::uint64_t pause_ = 1;
};

}  // namespace memo
