// See lane_memory.h. Hot.
#include "src/engine/lane_memory.h"

#include <algorithm>
#include <cstring>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/fallback_reasons.h"
#include "src/serve/written.h"

namespace memo {
namespace {

// Makes a block of calloc's zero, to the end of its granules: other allocators' functions that grow
// a zeroed block (mi_rezalloc) clear what is behind the usable size. What has no memory gets none:
// where less than half of a large block has any, that goes. `whole`: it is known that all has.
// `anew`: another block was here before, and the program may write less of this one. From
// kMappedAnew bytes on, the block's memory is always given back then.
void clear(void* start, std::uint64_t bytes, bool whole, bool anew) {
  if (bytes < tuning::kMinLooked) {
    std::memset(start, 0, bytes);
    return;
  }
  const bool stays = !anew || bytes < tuning::kMappedAnew;
  const std::uint64_t there = whole || !stays ? 0 : os::resident_bytes(start, bytes);
  if (whole || (stays && is_whole(bytes, there))) {
    os::clear_pages(start, bytes);
  } else if ((stays && 2 * there >= bytes) || !os::purge(start, bytes)) {
    os::clear_written(start, bytes);
  }
}

// Bytes of the last `calls` blocks that are alive before the call at `position`: the pool has them,
// and they have a place in the plan's slab, too. Where a lifetime is unknown it counts as long.
std::uint64_t alive_twice(const Schedule& schedule, StepIndex position, std::uint32_t calls) {
  std::uint64_t bytes = 0;
  for (std::uint32_t age = 1; age <= calls; ++age) {
    const Step& step = schedule.at(schedule.before(position, age));
    const bool alive = step.lifetime == 0 || step.lifetime >= age;
    bytes += step.offset != kUnplanned && alive ? round_up(step.size, kGranule) : 0;
  }
  return bytes;
}

}  // namespace

void LaneMemory::open(Shared* shared, std::uint32_t number, CallCounts* counts) {
  shared_ = shared;
  number_ = number;
  counts_ = counts;
  slab_ = &shared->slabs.at(0);
}

// The pool.

Given LaneMemory::give(const Call& call) {
  Pool& pool = shared_->pool;
  const std::uint64_t peak = pool.held().asked_peak_bytes();
  const std::uint64_t alignment = std::uint64_t{1} << call.alignment_log2;
  const Arena::Block block =
      pool.allocate(call.size, alignment, static_cast<std::uint16_t>(number_));
  if (block.start == nullptr) {
    return {.busy = block.busy};
  }
  MEMO_DCHECK(reinterpret_cast<std::uint64_t>(block.start) % alignment == 0);
  MEMO_DCHECK(pool.owner(block.start) == number_);
  live.fetch_add(round_up(call.size, kGranule), std::memory_order_relaxed);
  if ((counts_->counters().pooled_allocations.get() + 1) % tuning::kPoolWindow == 0 &&
      !shared_->timeless) {
    age(*shared_);
  }
  if (!block.resident && pool.headroom().lacks(call.size, pool.held().live_bytes())) [[unlikely]] {
    if (holds_slab()) {
      slab().give_back_unused();
    }
    make_room();
  }
  // Any allocator has to get what a peak grows by; the rest the pool has had before.
  const std::uint64_t grown = sub_sat(pool.held().asked_peak_bytes(), peak);
  note_growth(grown);
  return {.start = block.start,
          .zero = block.zero,
          .lacks = block.lacking,
          .again = sub_sat(block.lacking, grown)};
}

// The pool gets more and more while the slab serves no call: the loop is another one, whose memory
// must not come on top of the slab's. The height stays: else the pool would give way to it again.
void LaneMemory::outgrow_slab(std::uint64_t grown) {
  const std::uint64_t served = counts_->counters().planned_allocations.get();
  outgrown_ = served == served_ ? outgrown_ + grown : grown;
  served_ = served;
  if (outgrown_ > slab().height() / tuning::kSmallPart) {
    slab().give_back_unused();
    outgrown_ = 0;
    lent_ = Lent::kAll;
  }
}

// The loop is back, and takes its memory again: what the pool keeps of the other loop must not stay
// on top of it. If the two take turns every few iterations, the pool keeps its memory: without it
// each turn would cause page faults for all of the memory.
void LaneMemory::take_back() {
  Pool& pool = shared_->pool;
  const std::uint64_t little = std::max(slab().height() / tuning::kSmallPart, tuning::kKept);
  if (pool.held().dirty_bytes() <= little) {
    lent_ = Lent::kNothing;
    return;
  }
  if (lent_ == Lent::kRest) {
    lent_ = pool.trim(tuning::kMaxGivenBack, 0) != 0 ? Lent::kRest : Lent::kNothing;
    return;
  }
  const Nanos now = os::coarse_nanoseconds();
  if (!shared_->timeless && now >= yielded_at_ + 5 * tuning::kAtRest) {
    yields_.restart();
  }
  lent_ = yields_.waits() ? Lent::kNothing : Lent::kRest;
  if (lent_ == Lent::kRest) {
    pool.make_way(slab().height());
    yields_.refused(tuning::kMaxWait / 8);
    yielded_at_ = now;
  }
}

void LaneMemory::make_room() {
  counts_->counters().room_made.add();
  give_back_idle(*shared_, number_);
}

void* LaneMemory::serve(const Request& request, const Given& given) {
  if (given.start == nullptr) {
    return nullptr;
  }
  ask_for_background_thread(*shared_, counts_->counters().pooled_allocations.get(),
                            counts_->serves());
  if (request.zero && !given.zero) {
    clear(given.start, round_up(request.size, kGranule), false, true);
  }
  return given.start;
}

void LaneMemory::allow_slack(bool loop) {
  shared_->pool.allow_slack(loop ? 2 * tuning::kPoolSlack : tuning::kPoolSlack, loop);
}

// The slab.

// What the lane's blocks hold beyond the pool's peak less `more`, which a slab on trial is to get.
std::uint64_t LaneMemory::held_beyond(std::uint64_t more) const {
  const HeldMemory& held = shared_->pool.held();
  const std::uint64_t left = sub_sat(held.asked_peak_bytes(), more);
  return std::min(sub_sat(held.live_bytes(), left), live.load(std::memory_order_relaxed));
}

Claimed LaneMemory::claim(const Call& call, std::uint64_t offset) {
  MEMO_DCHECK(may_claim());
  const SlabPlace place = slab().claim(offset, call.size, std::uint64_t{1} << call.alignment_log2);
  return {.miss = miss_of(place.answer), .dirty = place.dirty};
}

bool LaneMemory::in_use(std::uint64_t offset) {
  const Space& space = slab().space();
  return space.pages.length(space.granule_of(slab().at(offset))) != Granules{0};
}

void* LaneMemory::serve(const Request& request, std::uint64_t offset, bool dirty) {
  Slab& its = slab();
  void* start = its.at(offset);
  MEMO_DCHECK(offset + request.size <= its.tallest());
  MEMO_DCHECK(reinterpret_cast<std::uint64_t>(start) % request.alignment == 0);
  if (its.attentive()) [[unlikely]] {
    its.attend(offset, request.size);
  }
  if (request.zero && dirty) {
    clear(start, round_up(request.size, kGranule), its.whole(), false);
  }
  if (!dirty) [[unlikely]] {
    get_memory(request.size);
  }
  return start;
}

// The program is about to write `bytes` of the slab that have no memory. While the slab had none
// there, the pool may have taken as much, and makes room now.
void LaneMemory::get_memory(std::uint64_t bytes) {
  const Pool& pool = shared_->pool;
  const std::uint64_t height = slab().height();
  if (lent_ != Lent::kNothing) {
    take_back();
  }
  if (pool.headroom().lacks(bytes, pool.held().live_bytes() + height)) [[unlikely]] {
    make_room();
  }
}

void LaneMemory::end_iteration(std::uint64_t offset, std::uint64_t bytes, bool believed) {
  // A whole iteration after the slab was opened what was alive then has been replaced.
  if (owing_ends_ != 0 && --owing_ends_ == 0) [[unlikely]] {
    debt.set(0);
    if (believed) {
      shared_->pool.make_way(slab().height());
    }
  }
  yields_.waits();  // an occasion less
  slab().use(os::coarse_nanoseconds());
  slab().sweep(offset, bytes);
}

// While a plan is on trial the pool keeps what it has beyond the slab's height.
void LaneMemory::begin_serving(bool trial, bool own) {
  MEMO_DCHECK(may_claim());
  // The deaths of its blocks are wanted while it is on trial, and after it, until the next one.
  slab().want_deaths(shared_->keep_trace || trial);
  if (!trial) {
    // Another thread has made the plan: the pool is left to the threads that come next.
    if (own) {
      shared_->pool.make_way(slab().height());
    }
    shared_->pool.allow_slack(0);
    owing_ends_ = 2;
  }
  shared_->tell_host();
}

void LaneMemory::trim(std::uint64_t height) {
  MEMO_DCHECK(may_claim());
  slab().trim(height);
}

void LaneMemory::give_back(bool height) {
  if (height) {
    debt.set(0);
  }
  if (!holds_slab()) {
    return;
  }
  if (!height) {
    slab().give_back_unused();
  } else if (slab().give_back()) {
    counts_->counters().released.add();
  }
}

void LaneMemory::let_slab_go() {
  if (holds_slab()) {
    slab().let_go(os::coarse_nanoseconds());
  }
  word_ = kNoWord;
}

void LaneMemory::lose_slab() {
  if (holds_slab()) {
    slab().orphan();
  }
  word_ = kNoWord;
}

void LaneMemory::wake_at_next_call() {
  if (holds_slab()) {
    slab().hold(SlabWord::held(number_, 0));
  }
}

bool LaneMemory::take_slab(const SlabWish& wish, Nanos now) {
  Slab* mine = shared_->slabs.take(wish, now, [&](Slab& other, std::uint64_t word) {
    return take_idle_slab(*shared_, other, word, wish);
  });
  if (mine == nullptr) {
    return false;
  }
  mine->use(now);
  slab_.store(mine, std::memory_order_relaxed);
  word_ = wish.word();
  MEMO_DCHECK(may_claim());
  return true;
}

// What was refused is asked for again after 1, 2, 4, ... further calls.
Opened LaneMemory::open(const Opening& opening) {
  const bool has_room = holds_slab() && opening.schedule.height <= slab().height();
  if (has_room || !refusals_.waits()) {
    const Opened opened = ask_for_slab(opening);
    slabs_in_use_ = opened == Opened::kBusy;
    if (opened == Opened::kOpened) {
      refusals_.restart();
      return opened;
    }
    refusals_.refused(tuning::kMaxWait / 8);
  }
  if (!slabs_in_use_) {
    return Opened::kRefused;
  }
  // Blocks of many threads come in no order: within its peak the pool would give pieces back and
  // take them again.
  allow_slack(false);
  return Opened::kBusy;
}

Opened LaneMemory::ask_for_slab(const Opening& opening) {
  const Schedule& schedule = opening.schedule;
  const SlabWish wish{.lane = number_, .plan = opening.plan.generation, .height = schedule.height};
  if (!take_slab(wish, os::coarse_nanoseconds())) {
    return Opened::kBusy;
  }
  Slab& its = slab();
  its.want_deaths(shared_->keep_trace || opening.trial);
  const std::uint64_t before = its.height();
  const std::uint64_t beyond = opening.trial ? held_beyond(sub_sat(schedule.height, before)) : 0;
  const Slab::Raised raised = its.raise(schedule.height, opening.trial);
  if (raised == Slab::Raised::kRefused) {
    if (its.height() == 0) {
      let_slab_go();
    }
    return Opened::kRefused;
  }
  MEMO_DCHECK(its.height() >= schedule.height);
  its.note_bound(schedule.lower_bound);
  if (raised == Slab::Raised::kEnough) {
    if (schedule.symbolic != nullptr) {
      its.sweep();  // each of its iterations asks
    }
    return Opened::kOpened;
  }
  owing_ends_ = 2;
  lent_ = Lent::kNothing;
  // A slab that had memory is no new memory: the pool's is kept for the threads that come next.
  if (opening.trial) {
    debt.set(beyond);
  } else if (before == 0) {
    debt.set(alive_twice(schedule, opening.position, opening.calls));
  }
  // Walking the whole heap takes a request's time: only for a slab that may raise the process'
  // peak.
  if (!opening.trial && raised == Slab::Raised::kTallest) {
    shared_->trim_next();
  }
  if (shared_->reports || shared_->keeps_much()) {
    shared_->start_background_thread();
  }
  return Opened::kOpened;
}

}  // namespace memo
