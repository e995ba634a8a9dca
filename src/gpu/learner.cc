// See learner.h. Cold.
#include "src/gpu/learner.h"

#include <algorithm>
#include <utility>

#include "src/base/guard.h"
#include "src/learn/learn.h"

namespace memo::gpu {
namespace {

constexpr std::uint32_t kHistory = 1U << 17;  // calls; longer loops are not seen
constexpr std::uint8_t kAlignment = 9;        // log2: tensors begin at 512 bytes
// So many iterations in a row, in each of which more than a part of the steps had no free place.
constexpr std::uint32_t kPoorIterations = 2;
constexpr std::uint32_t kOccupiedPart = 8;

// The step before which the fewest planned bytes are alive: memory that the pool has until then
// comes to the slab there, with the least of it in use.
StepIndex quiet_step(const Schedule& schedule) {
  const std::uint32_t count = schedule.count;
  std::vector<std::int64_t> change(std::size_t{count} + 1, 0);
  std::int64_t alive = 0;  // before step 0
  for (std::uint32_t i = 0; i < count; ++i) {
    const Step& step = schedule.steps[i];
    if (step.offset == kUnplanned || step.lifetime == 0) {
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(step.size);
    const std::uint64_t end = std::uint64_t{i} + step.lifetime;
    change[i + 1] += bytes;  // alive before step i + 1 ...
    if (end <= count) {
      change[std::min<std::uint64_t>(end, count)] -= bytes;  // ... and no more before its end
    } else {
      alive += bytes;  // it wraps round
      change[std::min<std::uint64_t>(end - count, count)] -= bytes;
    }
  }
  std::uint32_t best = 0;
  std::int64_t least = INT64_MAX;
  for (std::uint32_t i = 0; i < count; ++i) {
    alive += change[i];
    if (alive < least) {
      least = alive;
      best = i;
    }
  }
  return StepIndex{best};
}

}  // namespace

Learner::Learner(PlanStore& plans) : plans_(plans) {
  repeats_ = history_.reserve(kHistory);
  restart();
}

void Learner::restart() {
  log_.clear();
  first_ = number_;
  if (repeats_) {
    repeat_.start(&history_, kHistory);
  }
  cursors_.assign(plans_.all.size(), Cursor());
}

const char* Learner::phase() const {
  return phase_ == Phase::kLearning ? "learning" : phase_ == Phase::kWaiting ? "ready" : "serving";
}

void Learner::record(std::uint64_t bytes) {
  if (log_.size() >= kMostCalls) {
    restart();
  }
  log_.push_back({.size = bytes, .alignment_log2 = kAlignment});
}

void Learner::freed(std::uint64_t number) {
  if (number >= first_ && number - first_ < log_.size()) {
    log_[number - first_].death = static_cast<std::uint32_t>(log_.size());
  }
}

Learner::Answer Learner::next(std::uint64_t bytes) {
  recent_.add(bytes);
  window_.add(bytes, kAlignment);
  const bool look_due = repeats_ && repeat_.add(bytes, kAlignment);
  record(bytes);
  ++number_;
  if (phase_ == Phase::kServing) {
    const Answer answer = serve(bytes);
    // A loop that is a part of a longer one matches most calls, and never all of them.
    if (phase_ == Phase::kServing && look_due && misses_ != 0) {
      look();
    }
    return answer;
  }
  if (phase_ == Phase::kWaiting) {
    if (cursor_.position() == quiet_) {
      phase_ = Phase::kServing;
      served_ = 0;
      misses_ = 0;
      occupied_ = poor_ = 0;
      placer_.start(plan_->plan.get(), &plan_->plan.index(), cursor_);
      Answer answer = serve(bytes);
      answer.opened = phase_ == Phase::kServing;
      return answer;
    }
    if (cursor_.follow(*plan_->plan, bytes)) {
      return {};
    }
    phase_ = Phase::kLearning;
  }
  if (!adopt_cached() && !adopt() && look_due) {
    look();
  }
  return {};
}

Learner::Answer Learner::serve(std::uint64_t bytes) {
  const Step* step = placer_.next(bytes);
  ++served_;
  misses_ += step == nullptr;
  if (step != nullptr && placer_.wrapped()) {
    ++iterations_;
    plans_.note_use(*plan_);
    poor_ = occupied_ > placer_.schedule()->count / kOccupiedPart ? poor_ + 1 : 0;
    occupied_ = 0;
  }
  if (placer_.health().lost() || unfit()) {
    leave();
    return {};
  }
  const bool has_place = placer_.why_no_place(step) == Miss::kNone;
  return {.step = has_place ? step : nullptr, .opened = false};
}

// A plan that this process made has places for the blocks that it made it of. One of the cache may
// be anybody's, and one whose blocks live longer is none.
bool Learner::unfit() const {
  return plan_->fetched && poor_ >= kPoorIterations;
}

void Learner::leave() {
  plan_->wrong = plan_->wrong || placer_.health().outlived() || unfit();
  const auto run = static_cast<std::uint32_t>(std::min<std::uint64_t>(served_, UINT32_MAX));
  refuse();
  repeat_.lock_broke(run);
}

void Learner::refuse() {
  phase_ = Phase::kLearning;
  placer_.stop();
  plan_ = nullptr;
  restart();
}

// A plan of the cache of which the latest calls are the first ones, or those a quarter, a half or
// three quarters through it. Of several the longest, of which the others may be a part.
bool Learner::adopt_cached() {
  std::shared_ptr<StoredPlan> best;
  if (window_.full()) {
    for (const auto& plan : plans_.cached(window_.key())) {
      best = best == nullptr || plan->plan->count > best->plan->count ? plan : best;
    }
  }
  if (best != nullptr) {
    wait_for(best, best->behind(window_.key()));
  }
  return best != nullptr;
}

// A known plan that the latest calls fit is served without being learned again.
bool Learner::adopt() {
  constexpr std::uint32_t kSure = 24;  // calls in a row
  if (entered_ != plans_.entered()) {  // a cursor's plan may be another now
    entered_ = plans_.entered();
    cursors_.assign(plans_.all.size(), Cursor());
  }
  for (std::size_t i = 0; i < cursors_.size(); ++i) {
    StoredPlan& known = *plans_.all[i];
    const Plan& plan = known.plan;
    cursors_[i].seek(*plan, plan.index(), recent_);
    if (!known.wrong && cursors_[i].run() >= std::min(2 * plan->count, kSure)) {
      wait_for(plans_.all[i], cursors_[i].position());
      return true;
    }
  }
  return false;
}

void Learner::wait_for(std::shared_ptr<StoredPlan> plan, StepIndex next) {
  phase_ = Phase::kWaiting;
  plan_ = std::move(plan);
  cursor_ = Cursor(next);
  quiet_ = quiet_step(*plan_->plan);
}

void Learner::look() {
  const RecursionGuard guard;
  Period period;
  LearnOptions options;
  options.plan_milliseconds = plans_.milliseconds;
  options.min_run = repeat_.required();
  Plan plan = learn(guard, log_, options, &period);
  if (!plan || (phase_ == Phase::kServing && plan->count <= placer_.schedule()->count)) {
    return;
  }
  const auto position =
      StepIndex{static_cast<std::uint32_t>((log_.size() - period.first) % plan->count)};
  auto made = plans_.add(std::move(plan), period.length);
  if (phase_ == Phase::kServing) {
    placer_.stop();
  }
  wait_for(std::move(made), position);
}

}  // namespace memo::gpu
