// The memory behind a lane: its slab is taken, populated, given back and taken again; the pool
// ages. Hot.
#include <algorithm>

#include "src/base/bits.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/lane.h"

namespace memo {
// The first call after memory was given back, or in a child whose fork has interrupted a call.
void Lane::wake() {
  awake_.store(true, std::memory_order_relaxed);
  if (forked_) {
    start_anew();
  }
  if (phase() == Phase::kServing) {
    take_memory(*placer_.schedule());
  }
}

// Memory for the schedule's slab.
bool Lane::open_slab(const Schedule& schedule) {
  // A worker thread may only ever walk a part of another's plan (the packing buffers of a
  // convolution, 74 KB of 34 MB), and a program may write only a part of its blocks: they have
  // memory for what they touch.
  const bool whole = touched_.mostly() && schedule.dense();
  const std::uint64_t before = slab_.height();
  const Slab::Raised raised = slab_.raise(schedule.height, whole);
  if (raised == Slab::Raised::kRefused || raised == Slab::Raised::kEnough) {
    return raised == Slab::Raised::kEnough;
  }
  // Walking the whole heap takes 1 ms in BERT, and a request that comes after a pause waits for it:
  // only for a slab that may raise the process' peak.
  if (raised == Slab::Raised::kTallest && shared_->trim_next != nullptr) {
    const RecursionGuard guard;
    shared_->trim_next();
  }
  if (walks_whole_ && whole && plan_->walked.load(std::memory_order_relaxed)) {
    slab_.populate(before);
  }
  if (shared_->keep != nullptr && (shared_->reports || schedule.height >= tuning::kKeptSlab)) {
    const RecursionGuard guard;
    shared_->keep(guard);
  }
  return true;
}

void Lane::purge_slab() {
  if (slab_.purge()) {
    counters.released.add();
  }
}

bool Lane::give_back() {
  const TryLock entered(entered_);
  if (!entered) {
    return false;
  }
  purge_slab();
  slab_.retreat();
  awake_.store(false, std::memory_order_relaxed);
  return true;
}

bool Lane::tick(std::uint64_t now) {
  const std::uint64_t calls = counters.large_allocations.get();
  // The lane may have been quiet at the first look, but not for long.
  if (calls != seen_ || quiet_since_ == 0) {
    seen_ = calls;
    quiet_since_ = now;
  }
  const bool quiet = now - quiet_since_ >= tuning::kQuietNanoseconds;
  if (quiet && awake_.load(std::memory_order_relaxed)) {
    give_back();
  }
  return quiet;
}

void Lane::age_pool() {
  const std::uint64_t now = os::coarse_nanoseconds();
  std::uint64_t before = shared_->aged_at.load(std::memory_order_relaxed);
  if (now - before > tuning::kAgeNanoseconds &&
      shared_->aged_at.compare_exchange_strong(before, now)) {
    shared_->pool.age(tuning::kMaxGivenBack);
  }
}

}  // namespace memo
