// See stream_knowledge.h. Hot, but for the doors to src/learn.
#include "src/engine/stream_knowledge.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"
#include "src/engine/catalogue.h"
#include "src/engine/fallback_reasons.h"
#include "src/learn/learn.h"

namespace memo {
namespace {

// A short loop may be a part of the stream's, if other threads do nothing else: what is noted stays
// till it has run for long. A thread's first calls are no part of anything.
std::uint32_t trial_of(const StoredPlan& plan) {
  const bool may_be_part = plan.made->symbolic == nullptr && plan.iteration < tuning::kLongLoop;
  return may_be_part ? tuning::kConvincingRun : 0;
}

}  // namespace

void fetch_plans(const EngineHost& host, const CallWindow& window) {
  if (!host.outside->opened() || !window.full()) {
    return;
  }
  const std::uint64_t key = window.key();
  host.outside->note_beginning(key);
  const bool due = window.calls() % tuning::kCallsALook == 0;
  if (due || host.outside->has(key)) {
    const NoInterrupts whole;
    const RecursionGuard guard;
    os::run_on_own_stack([&] { host.fetch(guard, key, due); });
  }
}

void StreamKnowledge::open(Shared* shared, std::uint32_t number, Tracker* tracker) {
  shared_ = shared;
  number_ = number;
  tracker_ = tracker;
}

// The log.

bool StreamKnowledge::can_learn() {
  if (!log.ready() && log.take_memory(shared_->keep_trace)) {
    restart_histories();
  }
  return log.ready();
}

void StreamKnowledge::restart_histories() {
  if (log.ready()) {
    tracker_->begin_histories(&log.sizes, &log.sites);
  }
}

bool StreamKnowledge::note(const Call& call) {
  const bool full = log.recorder.full() && !shared_->keep_trace;
  if (full) {
    log.recorder.restart();
  }
  Allocation allocation;
  allocation.size = call.size;
  allocation.site = call.site;
  allocation.alignment_log2 = call.alignment_log2;
  allocation.op = call.op;
  noted_ = log.recorder.note(allocation, call.live);
  if (noted_ != kNotRecorded) {
    tracker_->counts().counters().learned_allocations.add();
  }
  return !full;
}

void StreamKnowledge::bind(const void* start, const Space* space) {
  if (start != nullptr && noted_ < log.recorder.count()) {
    log.recorder.bind(noted_, reinterpret_cast<std::uint64_t>(start),
                      const_cast<Space*>(space)->live, space->granule_of(start));
  }
  noted_ = kNotRecorded;
}

void StreamKnowledge::forget_calls() {
  log.recorder.restart();
}

void StreamKnowledge::planned() {
  if (!shared_->keep_trace) {
    log.recorder.restart();
  }
  log.forget_marks();
}

std::size_t StreamKnowledge::mark() {
  log.mark();
  return log.marks().size();
}

void StreamKnowledge::forget() {
  follower_ = Follower();
  log.forget_refusals();
  log.forget_marks();
  if (!shared_->keep_trace) {
    log.recorder.restart();
  }
}

// The plans.

Known StreamKnowledge::follow(const Call& call, const StoredPlan* serving, std::uint64_t tried) {
  follower_.hear(call.size, call.alignment_log2);
  if (shared_->host.outside != nullptr) {
    fetch_plans(shared_->host, follower_.window());
  }
  Known known = follower_.find(shared_->store, serving, tried);
  if (known.plan != nullptr && known.plan == serving && tried != 0) {
    PlanStore::release(*known.plan);
    return {};
  }
  if (known.plan != nullptr && !follower_.beginning()) {
    known.trial = trial_of(*known.plan);
  }
  return known;
}

void StreamKnowledge::follow_anew() {
  follower_.restart();
}

Known StreamKnowledge::guess(const Call& call, const Schedule& schedule, StepIndex position) {
  return {.plan = shared_->store.take_beginning(schedule, position, call.size), .position = {}};
}

bool StreamKnowledge::complete(StoredPlan& plan) {
  const NoInterrupts whole;
  const RecursionGuard guard;
  bool done = false;
  os::run_on_own_stack([&] { done = shared_->store.complete(guard, plan); });
  return done;
}

void StreamKnowledge::leave(StoredPlan& plan, std::uint32_t verdict) {
  MEMO_DCHECK(plan.users.load(std::memory_order_relaxed) != 0);
  const std::uint32_t slot = shared_->store.slot_of(&plan);
  if ((verdict & kWithdrawn) != 0) {
    shared_->store.withdraw(&plan);
  }
  if ((verdict & (kFailed | kUnfit)) != 0) {
    follower_.distrust(slot, plan, (verdict & kUnfit) != 0);
  }
  PlanStore::release(plan);
}

// The doors to src/learn.

// A plan by one of them, with the lane as its user; nullptr if there is none, or no room for one.
StoredPlan* StreamKnowledge::make_plan(LearnDoor& door, const Wanted& wanted, Period* period) {
  LearnOptions options;
  options.planner = shared_->options->PLANNER.value;
  options.plan_milliseconds = static_cast<std::uint32_t>(shared_->options->PLAN_TIME);
  options.min_run = wanted.sizes.required();
  options.trial_length = wanted.sizes.shift();
  // A plan that is known may fit yet, and fits better than what a few calls show.
  const bool may_follow = follower_.beginning() && !shared_->store.empty();
  options.trial_copies = may_follow ? 0 : wanted.trial_copies;
  options.only_trial = !wanted.sizes.sure();
  options.least_bytes = shared_->options->THRESHOLD;
  options.marks = log.marks();
  const NoInterrupts whole;
  const RecursionGuard guard;
  Plan plan;
  if (!os::run_on_own_stack([&] { plan = door(guard, log.recorder.log(), options, period); }) ||
      !plan) {
    return nullptr;
  }
  const double seconds = plan->plan_seconds;
  StoredPlan* stored = shared_->store.add(guard, std::move(plan), period->length, Maker::kProcess);
  if (stored != nullptr) {
    plan_seconds += seconds;
  }
  return stored;
}

Learned StreamKnowledge::learn(const Wanted& wanted) {
  Period period;
  StoredPlan* plan = make_plan(memo::learn, wanted, &period);
  if (plan == nullptr) {
    return {};
  }
  const Schedule& schedule = *plan->made;
  // On trial a plan costs its height in page faults; a pool that has the memory at hand costs none.
  if (period.trial != 0 && schedule.height > wanted.trial_bytes) {
    shared_->store.withdraw(plan);
    PlanStore::release(*plan);
    return {};
  }
  const std::uint32_t count = log.recorder.count();
  const auto alive = log.recorder.live().last(std::min(period.length, count));
  const auto [low, high] = std::minmax_element(alive.begin(), alive.end());
  if (shared_->options->VERBOSE >= 1) {
    Line() << "lane " << number_ << ": period of " << period.length << " allocations after "
           << count << ", slab of " << schedule.height << " bytes, bound " << schedule.lower_bound
           << (period.trial != 0 ? ", speculative" : "");
  }
  return {.plan = plan,
          .position = StepIndex{(count - period.first) % schedule.count},
          .quiet_level = *low + (*high - *low) / tuning::kQuietShare,
          .length = period.length,
          .begins = period.first,
          .trial = period.trial};
}

// A plan whose sizes follow from the iteration's first one.
std::uint32_t StreamKnowledge::learn_sites(const Wanted& wanted) {
  Period period;
  StoredPlan* plan = make_plan(memo::learn_symbolic, wanted, &period);
  if (plan == nullptr) {
    return 0;
  }
  if (shared_->options->VERBOSE >= 1) {
    Line() << "lane " << number_ << ": " << period.length
           << " allocations whose sizes follow from the first one's; slab of up to "
           << plan->made->height << " bytes, bound " << plan->made->lower_bound;
  }
  PlanStore::release(*plan);
  return period.length;
}

// Messages.

void StreamKnowledge::tell_phase(Phase phase) {
  if (shared_->options->VERBOSE >= 1) {
    Line() << "lane " << number_ << ": " << name_of(phase);
  }
}

void StreamKnowledge::tell_lost(std::uint64_t placed, Evidence why) {
  if (shared_->options->VERBOSE >= 1) {
    Line() << "lane " << number_ << ": the program has changed after " << placed
           << " served allocations (" << words_of(why).evidence << "); learning again";
  }
}

void StreamKnowledge::tell_miss(const Call& call, Miss miss, StepIndex near) {
  if (shared_->options->VERBOSE >= 3) [[unlikely]] {
    Line() << "lane " << number_ << ": " << call.size << " bytes not served near step "
           << near.count() << ": " << reason_of(miss).name;
  }
}

}  // namespace memo
