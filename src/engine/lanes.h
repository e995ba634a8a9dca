// The lanes of a process, what they share, and the region that they live in: there from the first
// large allocation on. Hot.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/check.h"
#include "src/base/counters.h"
#include "src/base/fork_mark.h"
#include "src/base/growing_array.h"
#include "src/base/lock.h"
#include "src/base/options.h"
#include "src/engine/lane.h"
#include "src/serve/space.h"

namespace memo {

class Lanes {
 public:
  constexpr Lanes() = default;
  // Takes the options, which outlive this; nothing is set up yet. Once.
  void configure(const Options& options, const EngineHost& host);

  // For the calling thread, which has no lane: one of its own, or the common one, where all others
  // have threads; nullptr if there are none at all. Any thread.
  Lane* find();
  // The calling thread, which ends, has left the lane: another may have it.
  void put_back(Lane& lane);
  [[nodiscard]] bool opened() const { return region.opened(); }
  // How many there are to look at. Any thread.
  [[nodiscard]] std::uint32_t count() const { return opened() ? shared_->lanes_taken() : 0; }
  // How many there may be at once, the common one among them; 0 until they are opened.
  [[nodiscard]] std::uint32_t possible() const { return possible_; }
  [[nodiscard]] Lane& at(std::uint32_t number) const { return lanes_.data()[number]; }
  // Of a lane, or of none: kMaxLanes.
  [[nodiscard]] std::uint32_t number_of(const Lane* lane) const {
    return lane == nullptr ? tuning::kMaxLanes : static_cast<std::uint32_t>(lane - lanes_.data());
  }
  // Once they are opened.
  [[nodiscard]] Shared& shared() const { return *shared_; }
  [[nodiscard]] const EngineHost& host() const { return host_; }

  // The space in which a block may start at the pointer, which is in the region; or nullptr.
  [[nodiscard]] Space* space_of(const void* pointer) const {
    MEMO_DCHECK(region.owns(pointer));
    Space& space = region.at(region.number_of(pointer));
    return space.plausible(pointer) ? &space : nullptr;
  }
  // True of the spaces of the pool's arenas; the others are slabs'.
  [[nodiscard]] bool is_pool(const Space& space) const { return &space < &region.at(pools_); }
  // The slab that the pointer, which is not the pool's, lies in.
  [[nodiscard]] Slab& slab_of(const void* pointer) const {
    return shared_->slabs.at(region.number_of(pointer) - pools_);
  }
  // How many spaces there are: the pool's, and one of each slab.
  [[nodiscard]] std::uint32_t spaces() const {
    return opened() ? pools_ + shared_->slabs.count() : 0;
  }
  // Of all spaces.
  [[nodiscard]] std::uint64_t committed_bytes() const;

  // Held while a lane is taken.
  [[nodiscard]] Lock& registry() { return registry_; }
  // In a forked child: if a thread that does not exist was taking a lane, the lock is nobody's; if
  // it was opening the region, there will be none.
  void forget_missing_thread();
  // The same, when the lanes have been told: all but `mine` are to be had.
  void forget_threads(const Lane* mine);
  // True if the books of lanes, plans and pool agree. Looks at all of them; no other thread may be
  // at work. For tests.
  [[nodiscard]] bool valid() const;

  Region region;
  ForkMark mark;  // that this process is the one that has the lanes
  // Large calls that no lane takes and the underlying allocator gets, of all threads.
  Counters passed_on;

 private:
  Lane* adopt();
  Lane* take();
  Lane* make(bool common);
  bool open();
  void share();

  GrowingArray<Lane> lanes_;     // of which the last is the common one, if it comes to that
  std::uint32_t next_free_ = 0;  // number of a lane without a thread, plus one; 0: there is none
  Shared* shared_ = nullptr;
  std::uint32_t possible_ = 0;
  std::uint32_t pools_ = 0;  // spaces of the pool's arenas, the first; behind them a slab each
  std::atomic<Lane*> common_{nullptr};
  std::atomic<bool> told_{false};  // the host knows that there are lanes
  bool torn_ = false;              // a child, in which a thread that does not exist was at open()
  const Options* options_ = nullptr;
  EngineHost host_;
  Lock registry_;
};

}  // namespace memo
