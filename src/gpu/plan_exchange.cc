// See plan_exchange.h. Cold.
#include "src/gpu/plan_exchange.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/guard.h"
#include "src/base/message.h"
#include "src/io/plan_cache.h"

namespace memo::gpu {
namespace {

constexpr const char* kMaker = "cuda";  // the machine that a plan's record names

}  // namespace

// Keys are of the calls from the first step on, and from each quarter of the plan on.
StepIndex StoredPlan::behind(std::uint64_t key) const {
  const std::uint64_t count = plan->count;
  std::uint64_t step = 0;
  for (std::uint32_t i = kPlanKeys; i-- > 0;) {
    step = name.keys[i] == key ? count * i / kPlanKeys : step;
  }
  return StepIndex{static_cast<std::uint32_t>((step + kKeyCalls) % count)};
}

PlanExchange::PlanExchange(const char* folder, Trust trust) : folder_(folder), trust_(trust) {
  const std::string_view doubts = doubt_about_cache(folder, trust);
  if (!doubts.empty()) {
    Line() << "the plans in '" << folder_ << "' are not used, and are left as they are: " << doubts;
    folder_.clear();
  }
  list();
}

void PlanExchange::enter(const PlanName& name) {
  for (const std::uint64_t key : name.keys) {
    std::vector<PlanName>& names = by_key_[key];
    if (key != 0 && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
}

void PlanExchange::list() {
  const FileMark mark = FileMark::of(folder_.c_str());
  if (folder_.empty() || mark == FileMark() || mark == listed_) {
    return;
  }
  listed_ = mark;
  const RecursionGuard guard;
  std::vector<PlanName> found;
  list_cache(
      guard, folder_.c_str(),
      [](void* to, const PlanName& name) {
        static_cast<std::vector<PlanName>*>(to)->push_back(name);
      },
      &found);
  const std::lock_guard held(lock_);
  for (const PlanName& name : found) {
    enter(name);
  }
}

std::vector<PlanName> PlanExchange::with_key(std::uint64_t key) {
  const std::lock_guard held(lock_);
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? std::vector<PlanName>() : found->second;
}

std::optional<StoredPlan> PlanExchange::load(const PlanName& name, std::uint64_t most) {
  const RecursionGuard guard;
  Cached cached;
  std::string_view problem;
  const bool loaded = load_cached(guard, folder_.c_str(), name, most, trust_, cached, &problem);
  if (loaded && std::strcmp(cached.record.machine, kMaker) == 0 &&
      cached.plan.plan->symbolic == nullptr) {
    note_use(folder_.c_str(), name);
    return StoredPlan{std::move(cached.plan.plan), cached.plan.iteration, name, true};
  }
  const std::lock_guard held(lock_);
  if (!problem.empty() && !std::exchange(complained_, true)) {
    char text[kCachedNameRoom];
    write_name(name, text);
    Line() << "cuda: the plan '" << text << "' in '" << folder_ << "' is not used: " << problem
           << "; `memomalloc plans verify` tells of all";
  }
  return std::nullopt;
}

void PlanExchange::save(std::shared_ptr<const StoredPlan> plan, std::vector<PlanName> wrong) {
  const std::lock_guard held(lock_);
  if (!folder_.empty() && plan->name.keys[0] != 0) {
    tasks_.push_back({std::move(plan), std::move(wrong)});
  }
}

void PlanExchange::write() {
  const std::lock_guard alone(writing_);
  const RecursionGuard guard;
  std::deque<Task> tasks;
  {
    const std::lock_guard held(lock_);
    tasks.swap(tasks_);
  }
  if (!tasks.empty()) {
    const CacheTurn turn(folder_.c_str());
    CacheRecord maker = describe_maker();
    std::strcpy(maker.machine, kMaker);
    for (const Task& task : tasks) {
      for (const PlanName& name : task.wrong) {
        remove_cached(folder_.c_str(), name);
      }
      const StoredPlan& plan = *task.plan;
      if (!save_cached(guard, turn, folder_.c_str(), {plan.plan.get(), plan.iteration}, plan.name,
                       maker, trust_) &&
          !std::exchange(complained_, true)) {
        Line() << "cuda: a plan cannot be saved in '" << folder_ << "': " << std::strerror(errno);
      }
    }
    prune_cache(guard, folder_.c_str(), {});
  }
  list();
}

}  // namespace memo::gpu
