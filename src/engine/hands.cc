// See hands.h: questions and their answers, and what a call gets in the end. Hot.
#include "src/engine/hands.h"

#include <algorithm>
#include <cstring>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"
#include "src/engine/fetch.h"
#include "src/engine/miss.h"
#include "src/serve/written.h"

namespace memo {
namespace {

Answer plan_found(StoredPlan* plan, StepIndex position = {}, std::uint64_t first = 0) {
  if (plan == nullptr) {
    return {};
  }
  return {
      .yes = true,
      .strange = plan->made->symbolic == nullptr && !plan->walked.load(std::memory_order_relaxed),
      .plan = plan,
      .best = &plan->best(),
      .position = position,
      .first = first};
}

// A short loop may be a part of the stream's, whoever does nothing else: what is noted stays till
// it has run for long. A thread's first calls are no part of anything.
std::uint32_t trial_of(const StoredPlan& plan) {
  const bool may_be_part = plan.made->symbolic == nullptr && plan.iteration < tuning::kLongLoop;
  return may_be_part ? tuning::kConvincingRun : 0;
}

// Makes a block of calloc's zero, to the end of its granules: other allocators' functions that grow
// a zeroed block (mi_rezalloc) clear what is behind the usable size. What has no memory gets none:
// of a large block of which only parts have any, those go. `whole`: it is known that it has.
void clear(void* start, std::uint64_t bytes, bool whole) {
  if (bytes < tuning::kMinLooked) {
    std::memset(start, 0, bytes);
  } else if (whole || is_whole(bytes, os::resident_bytes(start, bytes))) {
    os::clear_pages(start, bytes);
  } else if (!os::purge(start, bytes)) {
    os::clear_written(start, bytes);
  }
}

void age(Shared& shared) {
  const Nanos now = os::coarse_nanoseconds();
  Nanos before = shared.times.aged_at.load(std::memory_order_relaxed);
  if (now - before > tuning::kAgeNanoseconds &&
      shared.times.aged_at.compare_exchange_strong(before, now)) {
    shared.pool.age(tuning::kMaxGivenBack);
  }
  // Who learns for long has no background thread that would tell of it.
  Nanos told = shared.times.told_at.load(std::memory_order_relaxed);
  if (now - told > tuning::kFilePeriod && shared.times.told_at.compare_exchange_strong(told, now) &&
      told != Nanos{0}) {
    shared.tell_host();
  }
}

// True if a block in use begins at the offset.
bool begins_at(const Slab& slab, std::uint64_t offset) {
  const Space& space = slab.space();
  return space.pages.length(space.granule_of(slab.at(offset))) != Granules{0};
}

}  // namespace

void Hands::open(Shared* shared, std::uint32_t number, Space* space, Tracker* tracker) {
  shared_ = shared;
  number_ = number;
  tracker_ = tracker;
  slab.open(space, &shared->slabs, &shared->pool, number);
  slab.space().user.set(number_, shared->keep_trace);
}

Call Hands::call_of(const Request& request, std::uint64_t site) const {
  return {.size = request.size,
          .alignment_log2 = log2_floor(request.alignment),
          .site = site,
          .live = live.load(std::memory_order_relaxed),
          .peak = shared_->pool.held().asked_peak_bytes(),
          .log_full = log.recorder.full(),
          .moved = request.op == Op::k_realloc};
}

void Hands::purge() {
  if (slab.purge()) {
    tracker_->tally().counters().released.add();
  }
}

void* Hands::run(Action action, const Request& request) {
  call_.index = kNotRecorded;
  call_.block = {};
  for (;;) {
    if (action.effects != 0) {
      perform(request, action);
    }
    if (ends(action.ask)) {
      return end(request, action);
    }
    action = tracker_->answered(answer(request, action));
  }
}

Answer Hands::answer(const Request& request, const Action& action) {
  const Serving& serving = tracker_->state().serving;
  const AtHand& at_hand = tracker_->state().at_hand;
  switch (action.ask) {
    case Ask::kClaim: {
      const SlabPlace place = slab.claim(action.offset, request.size, request.alignment);
      call_.dirty = place.dirty;
      const std::uint64_t earlier = at_hand.earlier;
      return {.yes = earlier != kUnplanned && begins_at(slab, earlier),
              .miss = miss_of(place.answer)};
    }
    case Ask::kGive:
      return give(request);
    case Ask::kFollow: {
      follower_.hear(request.size, log2_floor(request.alignment));
      if (shared_->host.outside != nullptr) {
        fetch_plans(shared_->host, follower_.window());
      }
      const bool trial = serving.tries_own();
      using Has = Follower::Has;
      const Has has = trial ? Has::kTrial : serving.plan != nullptr ? Has::kPlan : Has::kNothing;
      const Follower::Found fits = follower_.find(shared_->store, serving.plan, has,
                                                  trial ? serving.placed + tuning::kTrialCalls : 0);
      if (trial && fits.plan == serving.plan) {
        shared_->store.release(fits.plan);
        return {};
      }
      Answer found = plan_found(fits.plan, fits.position, fits.first);
      found.trial = fits.plan != nullptr && !follower_.beginning() ? trial_of(*fits.plan) : 0;
      return found;
    }
    case Ask::kGuess:
      return plan_found(shared_->store.take_beginning(*serving.plan->made,
                                                      serving.placer.position(), request.size));
    case Ask::kPrepare: {
      const NoInterrupts whole;
      const RecursionGuard guard;
      StoredPlan& plan = *serving.plan;
      bool complete = false;
      os::run_on_own_stack([&] { complete = shared_->store.complete(guard, plan); });
      return {.yes = complete && tracker_->make_room(*plan.best()->symbolic), .best = &plan.best()};
    }
    case Ask::kOpenSlab: {
      // What the slab has room for is no question of memory.
      const Schedule& wanted = tracker_->wanted();
      const Answer opened =
          slab_wait_.ask(wanted.height <= slab.height(), [&] { return open_slab(wanted); });
      if (opened.busy) {
        // Blocks of many threads come in no order: within its peak the pool would give pieces back
        // and take them again. In a wave of 64 threads numpy had 16 page faults a step instead of
        // 12, at the same peak.
        shared_->pool.allow_slack(tuning::kPoolSlack);
      }
      return opened;
    }
    case Ask::kImproved:
      return {.best = at_hand.miss == Miss::kNone ? &end_iteration(at_hand.offset, request.size)
                                                  : &end_iteration(0, 0)};
    case Ask::kLearn:
      return learn();
    case Ask::kLearnSites:
      return learn_sites();
    case Ask::kMemory:
      if (log.prepare_again(shared_->keep_trace)) {
        tracker_->begin_histories(&log.sizes, &log.sites);
      }
      return {.yes = log.ready()};
    case Ask::kServe:
    case Ask::kDone:
    case Ask::kPass:
      break;
  }
  return {};
}

const Plan& Hands::end_iteration(std::uint64_t offset, std::uint64_t bytes) {
  // A whole iteration after the slab was opened what was alive then has been replaced.
  if (owing_ends_ != 0 && --owing_ends_ == 0) [[unlikely]] {
    shared_->pool.returned.owe(0);
    if (tracker_->state().serving.own && tracker_->state().serving.trial == 0) {
      shared_->pool.trim(slab.height() + tuning::kMaxGivenBack);
    }
  }
  slab.turn.work(os::coarse_nanoseconds());
  slab.sweep(offset, bytes);
  return tracker_->state().serving.plan->best();
}

Answer Hands::give(const Request& request) {
  const TrackerState& state = tracker_->state();
  if (shared_->verbose >= 3 && state.at_hand.missed) [[unlikely]] {
    Line() << "lane " << number_ << ": " << request.size << " bytes not served near step "
           << state.serving.placer.position().count() << ": " << reason_of(state.at_hand.miss).name;
  }
  const Pool& pool = shared_->pool;
  const std::uint64_t peak = pool.held().asked_peak_bytes();
  call_.block =
      shared_->pool.allocate(request.size, request.alignment, static_cast<std::uint16_t>(number_));
  if (call_.block.start == nullptr) {
    return {.busy = call_.block.busy};
  }
  MEMO_DCHECK(reinterpret_cast<std::uint64_t>(call_.block.start) % request.alignment == 0);
  live.fetch_add(round_up(request.size, kGranule), std::memory_order_relaxed);
  if (call_.index < log.recorder.count()) {
    Space& space = shared_->pool.space_of(call_.block.start);
    log.recorder.bind(call_.index, reinterpret_cast<std::uint64_t>(call_.block.start), space.live,
                      space.granule_of(call_.block.start));
  }
  Counters& counters = tracker_->tally().counters();
  if ((counters.pooled_allocations.get() + 1) % tuning::kPoolWindow == 0 && !shared_->timeless) {
    age(*shared_);
  }
  if (!call_.block.resident && pool.headroom().lacks(request.size, pool.held().live_bytes()))
      [[unlikely]] {
    counters.room_made.add();
    slab.give_back_unused();
    give_up_idle(*shared_, number_);
  }
  // Any allocator has to get what a peak grows by; the rest the pool has had before.
  const std::uint64_t grown =
      pool.held().asked_peak_bytes() - std::min(pool.held().asked_peak_bytes(), peak);
  return {.yes = true,
          .at_hand = call_.block.lacking == 0,
          .lacks = call_.block.lacking,
          .again = call_.block.lacking - std::min(call_.block.lacking, grown)};
}

void* Hands::end(const Request& request, const Action& action) {
  if (action.ask == Ask::kServe) {
    void* start = serve(request, action.offset, call_.dirty);
    if (call_.index < log.recorder.count()) {
      Space& space = slab.space();
      log.recorder.bind(call_.index, reinterpret_cast<std::uint64_t>(start), space.live,
                        space.granule_of(start));
    }
    return start;
  }
  if (action.ask == Ask::kPass) {
    shared_->passed_on->pass_on(request.size, &Counters::fallback_lane);
    return nullptr;
  }
  if (call_.block.start == nullptr) {
    return nullptr;
  }
  Tally& tally = tracker_->tally();
  keep(*shared_, tally.counters().pooled_allocations.get(), tally.serves());
  if (request.zero && !call_.block.zero) {
    clear(call_.block.start, round_up(request.size, kGranule), false);
  }
  return call_.block.start;
}

void* Hands::serve(const Request& request, std::uint64_t offset, bool dirty) {
  void* start = slab.at(offset);
  MEMO_DCHECK(offset + request.size <= slab.tallest());
  MEMO_DCHECK(reinterpret_cast<std::uint64_t>(start) % request.alignment == 0);
  if (slab.attentive()) [[unlikely]] {
    slab.attend(offset, request.size);
  }
  if (request.zero && dirty) {
    clear(start, round_up(request.size, kGranule), slab.whole());
  }
  // The place gets memory: under a limit the pool may hold as much since the slab's was given back.
  const Pool& pool = shared_->pool;
  if (!dirty && pool.headroom().lacks(request.size, pool.held().live_bytes() + slab.height()))
      [[unlikely]] {
    tracker_->tally().counters().room_made.add();
    give_up_idle(*shared_, number_);
  }
  return start;
}

}  // namespace memo
