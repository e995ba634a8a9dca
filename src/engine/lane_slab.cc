// The memory behind a lane: its slab is taken, populated, given back and taken again; the pool
// ages. Hot.
#include <algorithm>

#include "src/base/bits.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/lane.h"

namespace memo {
namespace {

// Where the advice on huge pages ends in a slab of `height` bytes. By itself it covers whole huge
// pages only, so that none is populated beyond the height; a slab's memory is committed in steps of
// many huge pages, so that the last one is there to be had.
std::uint64_t huge_end(Choice choice, std::uint64_t height) {
  return choice == Choice::kAuto ? round_down(height, os::kHugePage)
                                 : round_up(height, os::kHugePage);
}

}  // namespace

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

// Memory for the schedule's slab. What learning left behind is given back first, so that the two
// never add up.
bool Lane::open_slab(const Schedule& schedule) {
  const std::uint64_t height = schedule.height;
  const std::uint64_t before = slab_height_.load(std::memory_order_relaxed);
  if (height <= before) {
    return true;
  }
  // Known plans are tried again at each call, so being refused must cost little, and is said once.
  // A worker thread may only ever walk a part of another's plan (the packing buffers of a
  // convolution, 74 KB of 34 MB), and a program may write only a part of its blocks: they have
  // memory for what they touch.
  const bool scarce = shared_->pool.headroom().scarce(height - before);
  const bool whole = touched_.mostly() && schedule.dense() && !scarce;
  const bool tallest = height > tallest_.load(std::memory_order_relaxed);
  if (!reserve_slab(height, whole)) {
    if (shared_->verbose >= 1 && !refused_) {
      Line()
          << "no memory for a slab of " << height
          << " bytes; serving without one (MEMOMALLOC_SLAB_LIMIT and `ulimit -v` may be too low)";
    }
    refused_ = true;
    return false;
  }
  refused_ = false;
  shared_->pool.trim(height + tuning::kMaxGivenBack);
  if (tallest || slab_space_->sparing()) {
    shared_->pool.retreat();
  }
  // Walking the whole heap takes 1 ms in BERT, and a request that comes after a pause waits for it:
  // only for a slab that may raise the process' peak.
  if (tallest && shared_->trim_next != nullptr) {
    const RecursionGuard guard;
    shared_->trim_next();
  }
  if (walks_whole_ && whole && plan_->walked.load(std::memory_order_relaxed)) {
    const std::uint64_t there = round_down(before, os::page_size());
    os::populate(slab_space_->base() + there, round_up(height, os::page_size()) - there);
  }
  if (shared_->keep != nullptr && (shared_->reports || height >= tuning::kKeptSlab)) {
    const RecursionGuard guard;
    shared_->keep(guard);
  }
  return true;
}

// Under a limit the pool's unused memory may be all that is in a slab's way. Not time and again: what
// is refused for good is asked for at each call.
bool Lane::make_room(std::uint64_t height) {
  return !refused_ && shared_->pool.trim(height + tuning::kMaxGivenBack) != 0 &&
         shared_->pool.retreat() != 0;
}

// Takes the slab's part of the limit and its addresses; the memory comes when it is touched.
// `whole`: all of it will be written, and may come in huge pages.
bool Lane::reserve_slab(std::uint64_t height, bool whole) {
  const std::uint64_t more = height - slab_height_.load(std::memory_order_relaxed);
  if (shared_->slab_bytes.fetch_add(more, std::memory_order_relaxed) + more > shared_->slab_limit ||
      !(slab_space_->commit(height) || (make_room(height) && slab_space_->commit(height)))) {
    shared_->slab_bytes.fetch_sub(more, std::memory_order_relaxed);
    return false;
  }
  const std::uint64_t advised = huge_end(shared_->huge_pages, height);
  if (advised > 0) {
    os::advise_huge(slab_space_->base(), advised, shared_->huge_pages != Choice::kNever && whole);
  }
  slab_height_.store(height, std::memory_order_relaxed);
  tallest_ = std::max(tallest_.load(std::memory_order_relaxed), height);
  if (shared_->verbose >= 2) {
    Line() << "lane " << number_ << ": slab of " << height << " bytes taken";
  }
  return true;
}

void Lane::purge_slab() {
  const std::uint64_t height = slab_height_.exchange(0, std::memory_order_relaxed);
  if (height == 0) {
    return;
  }
  shared_->slab_bytes.fetch_sub(height, std::memory_order_relaxed);
  counters.released.add();
  if (shared_->verbose >= 2) {
    Line() << "lane " << number_ << ": slab of " << height << " bytes given back";
  }
  purge_free(0, std::max(height, huge_end(shared_->huge_pages, height)));
}

// The slab needs no more than `height` bytes from now on.
void Lane::lower_slab(std::uint64_t height) {
  const std::uint64_t before = slab_height_.load(std::memory_order_relaxed);
  if (before <= height) {
    return;
  }
  slab_height_.store(height, std::memory_order_relaxed);
  shared_->slab_bytes.fetch_sub(before - height, std::memory_order_relaxed);
  purge_free(height, std::max(before, huge_end(shared_->huge_pages, before)));
}

// Gives back the memory of [from, to) that no block uses; bytes from the slab's start, whole
// granules.
void Lane::purge_free(std::uint64_t from, std::uint64_t to) {
  const std::uint64_t top = to / kGranule;
  for (PageMap::Run run = slab_space_->pages.next_free(from / kGranule, top); run.count != 0;
       run = slab_space_->pages.next_free(run.first + run.count, top)) {
    slab_space_->give_back(run.first, run.count);
  }
}

bool Lane::give_back() {
  const TryLock entered(entered_);
  if (!entered) {
    return false;
  }
  purge_slab();
  slab_space_->retreat();
  awake_.store(false, std::memory_order_relaxed);
  return true;
}

bool Lane::tick(std::uint64_t now, bool scarce) {
  const std::uint64_t calls = counters.large_allocations.get();
  const bool rested = calls == seen_;
  // The lane may have been quiet at the first look, but not for long.
  if (!rested || quiet_since_ == 0) {
    seen_ = calls;
    quiet_since_ = now;
  }
  const bool quiet = now - quiet_since_ >= tuning::kQuietNanoseconds;
  if ((quiet || (scarce && rested)) && awake_.load(std::memory_order_relaxed)) {
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
    if (before != 0 && shared_->phase_changed != nullptr && stack_.room() >= tuning::kReportStack) {
      const RecursionGuard guard;  // who learns for long has no keeper that would tell of it
      shared_->phase_changed(guard);
    }
  }
}

}  // namespace memo
