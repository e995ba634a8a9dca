// What a lane's tracker has done besides its questions, and the doors to src/learn. Hot, but for
// those.
#include <algorithm>
#include <utility>

#include "src/base/bits.h"
#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"
#include "src/engine/hands.h"
#include "src/engine/miss.h"
#include "src/learn/learn.h"

namespace memo {

bool Hands::prepare_to_learn() {
  if (!log.ready() && log.prepare(shared_->keep_trace)) {
    tracker_->begin_histories(&log.sizes, &log.sites);
  }
  return log.ready();
}

void Hands::forget() {
  follower_ = Follower();
  slab_refusals_.restart();
  log.forget_marks();
  stack = {};
  if (!shared_->keep_trace) {
    log.recorder.restart();
  }
}

// In the order of the effects.
void Hands::perform(const Request& request, const Action& action) {
  const std::uint32_t effects = action.effects;
  const AtHand& at_hand = tracker_->state().at_hand;
  if ((effects & kRestartLog) != 0) {
    log.recorder.restart();
  }
  if ((effects & kNote) != 0) {
    const Call& call = at_hand.call;
    Allocation allocation;
    allocation.size = call.size;
    allocation.site = call.site;
    allocation.alignment_log2 = call.alignment_log2;
    allocation.op = request.op;
    call_.index = log.recorder.note(allocation, call.live);
    if (call_.index != kNotRecorded) {
      tracker_->tally().counters().learned_allocations.add();
    }
  }
  if ((effects & kMark) != 0) {
    log.mark();
  }
  if ((effects & kAllowSlack) != 0) {
    shared_->pool.allow_slack(tuning::kPoolSlack);
  }
  if ((effects & kAllowLoopSlack) != 0) {
    shared_->pool.allow_slack(tuning::kLoopSlack, true);
  }
  if ((effects & (kWithdraw | kRestartFollower | kPartOnly | kTrust | kDistrust | kRelease)) != 0) {
    judge_left(effects);
  }
  // What a plan that was wrong has written lies elsewhere in the next one's slab.
  if (const Phase phase = tracker_->phase();
      (effects & kRelease) != 0 && holds_slab() &&
      (phase == Phase::kLearning || phase == Phase::kPooling)) {
    slab().give_back_unused();
  }
  if ((effects & kWalked) != 0) {
    tracker_->state().serving.plan->walked.store(true, std::memory_order_relaxed);
  }
  if ((effects & kPurge) != 0) {
    purge();
  }
  if ((effects & kLower) != 0) {
    slab().lower(tracker_->wanted().height);
  }
  if ((effects & kEvade) != 0) {
    slab().evade();
    shared_->pool.trim(tuning::kMaxGivenBack);  // what it had to hold for blocks without a place
  }
  tell(effects);
  if ((effects & kStarted) != 0) {
    start();
  }
}

// Of the plan that was left first: what has become of it; of all: they are used no more.
void Hands::judge_left(std::uint32_t effects) {
  const TrackerState& state = tracker_->state();
  StoredPlan* left = state.left_count != 0 ? state.left[0] : nullptr;
  if ((effects & kWithdraw) != 0) {
    shared_->store.withdraw(left);
  }
  if ((effects & kRestartFollower) != 0) {
    follower_.restart();
  }
  if ((effects & kPartOnly) != 0) {
    follower_.distrust(shared_->store.slot_of(left), *left, true);
  }
  if ((effects & kTrust) != 0) {
    follower_.trust(shared_->store.slot_of(left));
  }
  if ((effects & kDistrust) != 0) {
    follower_.distrust(shared_->store.slot_of(left), *left, (effects & kDistrustTwice) != 0);
  }
  for (std::uint32_t i = 0; i < state.left_count; ++i) {
    shared_->store.release(state.left[i]);
  }
}

// Serving begins, or a plan on trial is believed. While it is not, the log goes on, and the pool
// keeps what it has beyond the slab's height.
void Hands::start() {
  const bool trial = tracker_->state().serving.trial != 0;
  // The deaths of its blocks are wanted while it is on trial, and after it, until the next one.
  slab().want_deaths(shared_->keep_trace || trial);
  if (!trial) {
    // Who has taken up a plan of others leaves the pool to the threads that come next: each has its first calls from it.
    if (tracker_->state().serving.own) {
      shared_->pool.trim(slab().height() + tuning::kMaxGivenBack);
    }
    if (!shared_->keep_trace) {
      log.recorder.restart();
    }
    log.forget_marks();
    shared_->pool.allow_slack(0);
    owing_ends_ = 2;
  }
  shared_->tell_host();
}

void Hands::tell(std::uint32_t effects) const {
  if (shared_->verbose >= 1 && (effects & kTellPhase) != 0) {
    Line() << "lane " << number_ << ": " << name_of(tracker_->phase());
  }
  if (shared_->verbose >= 1 && (effects & kTellLost) != 0) {
    Line() << "lane " << number_ << ": the program has changed after "
           << tracker_->state().serving.placed << " served allocations; learning again";
  }
}

// A plan by one of the doors to src/learn, with the lane as its user; nullptr if there is none, or
// no room for one.
StoredPlan* Hands::make_plan(LearnDoor& door, Period* period) {
  LearnOptions options;
  options.planner = shared_->options->PLANNER.value;
  options.plan_milliseconds = static_cast<std::uint32_t>(shared_->options->PLAN_TIME);
  options.min_run = tracker_->state().search.sizes.required();
  const Repeat& sizes = tracker_->state().search.sizes;
  options.trial_length = sizes.shift();
  // A plan that is known may fit yet, and fits better than what a few calls show.
  const bool may_follow = follower_.beginning() && !shared_->store.empty();
  options.trial_copies = may_follow ? 0 : tracker_->state().search.trial_copies();
  options.only_trial = !sizes.sure();
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

Answer Hands::learn() {
  Period period;
  StoredPlan* plan = make_plan(memo::learn, &period);
  if (plan == nullptr) {
    return {};
  }
  const Schedule& schedule = *plan->made;
  // On trial a plan costs its height in page faults; a pool that has the memory at hand costs none.
  if (period.trial != 0 && schedule.height > tracker_->state().search.trial_bytes()) {
    shared_->store.withdraw(plan);
    shared_->store.release(plan);
    return {};
  }
  const std::uint32_t count = log.recorder.count();
  const auto alive = log.recorder.live().last(std::min(period.length, count));
  const auto [low, high] = std::minmax_element(alive.begin(), alive.end());
  if (shared_->verbose >= 1) {
    Line() << "lane " << number_ << ": period of " << period.length << " allocations after "
           << count << ", slab of " << schedule.height << " bytes, bound " << schedule.lower_bound
           << (period.trial != 0 ? ", on trial" : "");
  }
  return {.yes = true,
          .plan = plan,
          .best = &plan->made,
          .position = StepIndex{(count - period.first) % schedule.count},
          .quiet_level = *low + (*high - *low) / tuning::kQuietShare,
          .length = period.length,
          .begins = period.first,
          .trial = period.trial};
}

// A plan whose sizes follow from the iteration's first one.
Answer Hands::learn_sites() {
  Period period;
  StoredPlan* plan = make_plan(memo::learn_symbolic, &period);
  if (plan == nullptr) {
    return {};
  }
  if (shared_->verbose >= 1) {
    Line() << "lane " << number_ << ": " << period.length
           << " allocations whose sizes follow from the first one's; slab of up to "
           << plan->made->height << " bytes, bound " << plan->made->lower_bound;
  }
  shared_->store.release(plan);
  return {.yes = true, .length = period.length};
}

}  // namespace memo
