// What fork() does to the engine. It may come from a signal handler, without the handlers of
// fork(), and while other threads hold locks. Cold but for here(), and no allocation.
#pragma once

#include <cstdint>

#include "src/engine/lanes.h"

namespace memo {

class Forks {
 public:
  explicit constexpr Forks(Lanes& lanes) : lanes_(lanes) {}

  // Around fork(), in a signal's handler too: the parent takes the locks, so that the child finds
  // whole what they guard. What a frame of the calling thread holds stays as it is: in the child
  // that frame goes on as well. What others hold for too long the child does without.
  void before();
  void after_in_parent();
  // What the child is to do is left to its first call that comes to the engine, since most children
  // make none: each page that is written is copied. Not where a frame of the engine goes on in it,
  // or `at_once`.
  void after_in_child(bool at_once = false);
  // That first call, of a child without fork()'s handlers, too. False where another thread has come
  // first, and is at it for long.
  [[gnu::cold]] bool notice();

  // False in a child whose first call another thread is at for long. Hot.
  bool noticed() { return here() || notice(); }

  // From now on children are noticed that no handler tells of. Comes by itself with the first lane.
  void mark_process() { lanes_.mark.open(); }
  // False in a forked child that has not been noticed yet.
  [[nodiscard]] bool here() const { return lanes_.mark.here(); }
  // True in a process that has been forked since the engine was configured or marked.
  [[nodiscard]] bool forked() const { return forked_ || !here(); }

 private:
  // The locks that are taken for a fork, as bits of ThreadState::forks.
  static constexpr std::uint32_t kRegistry = 1;
  static constexpr std::uint32_t kStore = 2;
  static constexpr std::uint32_t kPool = 4;
  static constexpr std::uint32_t kLane = 8;
  // And whether children get no copy of what is free in the pool.
  static constexpr std::uint32_t kWiped = 16;
  static constexpr std::uint32_t kForkBits = 5;

  [[nodiscard]] std::uint32_t wipe_free(bool pool) const;
  void let_go(bool in_parent);
  void live_on(const Lane* mine, bool interrupted, bool told);
  void take_over(Shared& shared, const Lane* mine, bool interrupted);

  Lanes& lanes_;
  Lock noticing_;
  const Lane* forking_ = nullptr;  // of the thread that lives on, where a handler has told
  bool forked_ = false;            // this is a child
};

}  // namespace memo
