// How a lane gets from one phase to the next: learning, waiting for a quiet point, serving,
// diverging. Hot, but for the door to src/learn.
#include <algorithm>
#include <utility>

#include "src/base/bits.h"
#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/tuning.h"
#include "src/engine/lane.h"
#include "src/learn/learn.h"

namespace memo {
void* Lane::learn(const Request& request, std::uint64_t site) {
  if (log_.recorder.full() && !shared_->keep_trace) {
    counters.recorder_full.add();
    log_.recorder.restart();
    ++restarts_;
  }
  if (searching()) {
    look_for_pool();
  }
  Allocation allocation;
  allocation.size = request.size;
  allocation.site = site;
  allocation.alignment_log2 = log2_floor(request.alignment);
  allocation.op = request.op;
  const std::uint32_t index = log_.recorder.note(allocation, live_.load(std::memory_order_relaxed));
  if (index != kNotRecorded) {
    counters.learned_allocations.add();
  }
  if (phase() == Phase::kReady) {
    wait_for_quiet(request.size);
  } else if (phase() != Phase::kServing) {
    follow_known_plans(request.size);
  }
  const bool serving = phase() == Phase::kServing;
  void* start = serving ? serve(request) : pool(request);
  if (start != nullptr && index < log_.recorder.count()) {
    Space& space = slab_.contains(start) ? slab_.space() : shared_->pool.space();
    log_.recorder.bind(index, reinterpret_cast<std::uint64_t>(start), space.live,
                       space.granule_of(start));
  }
  if (!serving) {
    const bool worth_a_look = repeat_.add(request.size, allocation.alignment_log2);
    looping_.store(repeat_.looping(), std::memory_order_relaxed);
    if (worth_a_look && searching()) {
      try_to_learn();
    }
  }
  if (phase() == Phase::kPooling && site != 0 && demand_.wants_sites() &&
      site_repeat_.add(site, allocation.alignment_log2) && symbolic_ < tuning::kMaxSymbolic) {
    try_symbolic();
  }
  return start;
}

void Lane::look_for_pool() {
  const Demand::Look look = demand_.look(shared_->pool.peak_bytes());
  if (look == Demand::Look::kNewLoop) {
    touched_.restart();
    set_phase(Phase::kLearning);
  } else if (look == Demand::Look::kLearned) {
    set_phase(Phase::kPooling);
  }
  if (demand_.unordered()) {
    shared_->pool.allow_slack(tuning::kPoolSlack);
  }
}

// A plan by one of the doors to src/learn, with the lane as its user; nullptr if there is none, or
// no room for one.
StoredPlan* Lane::make_plan(LearnDoor& door, Period* period) {
  if (stack_.room() < tuning::kPlanStack) {
    return nullptr;
  }
  const NoInterrupts whole;
  const RecursionGuard guard;
  Plan plan = door(guard, log_.recorder.log(), learn_options(), period);
  if (!plan) {
    return nullptr;
  }
  const double seconds = plan->plan_seconds;
  StoredPlan* stored = shared_->store.add(guard, std::move(plan), period->length, true);
  if (stored != nullptr) {
    counters.plans.add();
    plan_seconds_ += seconds;
  }
  return stored;
}

void Lane::try_to_learn() {
  Period period;
  plan_ = make_plan(memo::learn, &period);
  if (plan_ == nullptr) {
    return;
  }
  const Schedule* schedule = plan_->made.get();
  walks_whole_ = true;
  cursor_ = Cursor((log_.recorder.count() - period.first) % schedule->count);
  // Starting where the least is alive keeps learning's memory and the slab's from adding up.
  const auto live = log_.recorder.live().last(std::min(period.length, log_.recorder.count()));
  const auto [low, high] = std::minmax_element(live.begin(), live.end());
  quiet_level_ = *low + (*high - *low) / tuning::kQuietShare;
  patience_ = period.length + kContext;
  set_phase(Phase::kReady);
  if (shared_->verbose >= 1) {
    Line() << "lane " << number_ << ": period of " << period.length << " allocations after "
           << log_.recorder.count() << ", slab of " << schedule->height << " bytes, bound "
           << schedule->lower_bound;
  }
}

LearnOptions Lane::learn_options() const {
  LearnOptions options;
  options.planner = shared_->planner;
  options.plan_milliseconds = static_cast<std::uint32_t>(shared_->plan_milliseconds);
  options.min_run = repeat_.required();
  options.least_bytes = shared_->threshold;
  options.marks = log_.marks();
  return options;
}

// A plan whose sizes follow from the iteration's first one. It is taken up like any other known
// plan: when some calls have fitted it.
void Lane::try_symbolic() {
  Period period;
  StoredPlan* plan = make_plan(memo::learn_symbolic, &period);
  if (plan == nullptr) {
    return;
  }
  const Schedule* schedule = plan->made.get();
  ++symbolic_;
  site_repeat_.lock_broke(2 * period.length);  // four more iterations before another is made
  counters.symbolic_calls.add(period.length);
  if (shared_->verbose >= 1) {
    Line() << "lane " << number_ << ": " << period.length
           << " allocations whose sizes follow from the first one's; slab of up to "
           << schedule->height << " bytes, bound " << schedule->lower_bound;
  }
  shared_->store.release(plan);
}

// Between the plan and its first block: the call must be the step expected, and the time a quiet
// one.
void Lane::wait_for_quiet(std::uint64_t size) {
  const Schedule& schedule = *plan_->made;
  if (!cursor_.expects(schedule, size)) {
    shared_->store.withdraw(plan_);
    drop_plan();
    repeat_.lock_broke(0);
    set_phase(Phase::kLearning);
    return;
  }
  if (live_.load(std::memory_order_relaxed) <= quiet_level_ || --patience_ == 0) {
    start_serving();
    return;
  }
  cursor_.follow(schedule, size);
}

void Lane::start_serving() {
  if (!begin_plan()) {
    return;
  }
  shared_->pool.trim(slab_.height() + tuning::kMaxGivenBack);
  if (!shared_->keep_trace) {
    log_.recorder.restart();
  }
  log_.forget_marks();
  demand_.planned();
  restarts_ = 0;
  shared_->pool.allow_slack(0);
  if (!planned_) {
    planned_ = true;
    served_.begin(counters);  // what the pool did before is no part of what plans are judged by
  }
  set_phase(Phase::kServing);
  if (shared_->phase_changed != nullptr && stack_.room() >= tuning::kReportStack) {
    const RecursionGuard guard;
    shared_->phase_changed(guard);
  }
}

// The next call begins an iteration: the moment for a lower plan, since the fewest blocks lie where
// the old one has put them.
void Lane::end_iteration() {
  walks_whole_ = true;
  if (shapes_.plan() != nullptr) {
    counters.iterations.add();
    return;
  }
  counters.iterations.add(placer_.schedule()->count / plan_->iteration);
  if (placer_.walked_through()) {
    plan_->walked.store(true, std::memory_order_relaxed);
  }
  const Plan& best = plan_->best();
  if (best.get() != placer_.schedule()) [[unlikely]] {
    placer_.start(best.get(), &best.index(), Cursor());
    slab_.lower(best->height);
    counters.lowered.add();
  }
}

// The program has changed. A plan that hardly served was wrong; others are kept, since programs
// come back.
void Lane::diverge() {
  counters.diverged.add();
  const std::uint64_t served = placed_;
  if (served < tuning::kTrialIterations * plan_->iteration) {
    shared_->store.withdraw(plan_);
  }
  follower_.restart();
  touched_.restart();
  const std::uint32_t slot = shared_->store.slot_of(plan_);
  if (served >= tuning::kConvincingRun && !placer_.health().unfit()) {
    follower_.trust(slot);
  } else {
    follower_.distrust(slot, *plan_, placer_.health().unfit());
  }
  if (placer_.health().unfit()) {
    repeat_.lock_broke(tuning::kConvincingRun / 2);  // a stream so uneven must convince
  } else {
    repeat_.lock_broke(static_cast<std::uint32_t>(std::min<std::uint64_t>(served, UINT32_MAX)));
  }
  drop_plan();
  if (served >= tuning::kConvincingRun) {
    purge_slab();  // what the new loop needs while it is learned must not come on top
  }
  look_for_period();
  if (shared_->verbose >= 1) {
    Line() << "lane " << number_ << ": the program has changed after " << served
           << " served allocations; learning again";
  }
}

void Lane::iteration(const RecursionGuard&) {
  const TryLock entered(entered_);
  if (!entered) {
    return;
  }
  log_.recorder.mark();
  if (phase() == Phase::kServing) {
    return;
  }
  log_.mark();
  if (searching() && log_.marks().size() >= 3) {
    try_to_learn();
  }
}

}  // namespace memo
