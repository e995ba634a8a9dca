// The plans of one device, shared by its streams: backward runs in another thread, and a loop may
// move to another stream. Of kMost plans the next one replaces one that was wrong, else the least
// recently served. A stream that serves a replaced plan keeps it. Under the device's lock; cold.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "src/gpu/plan_exchange.h"

namespace memo::gpu {

class PlanStore {
 public:
  static constexpr std::size_t kMost = 32;

  // Without a cache `cache` is null. A plan from it has `most_height` bytes at most; one that is
  // made takes `most_time` at most, milliseconds.
  PlanStore(PlanExchange* cache, std::uint64_t most_height, std::uint32_t most_time)
      : milliseconds(most_time), cache_(cache), most_height_(most_height) {}

  // A plan that this process has made. It goes to the cache, in place of those of the same calls
  // that were wrong.
  std::shared_ptr<StoredPlan> add(Plan plan, std::uint32_t iteration);
  // The cache's plans that have calls with the key, and are not known to be wrong; they are read
  // where they are not in `all` yet.
  std::vector<std::shared_ptr<StoredPlan>> cached(std::uint64_t key);
  // The plan is served now.
  void note_use(StoredPlan& plan) { plan.turn = ++turn_; }
  // Plans that ever were in `all`: another number, other plans.
  [[nodiscard]] std::uint64_t entered() const { return made + fetched; }

  std::vector<std::shared_ptr<StoredPlan>> all;
  std::uint64_t made = 0;     // by this process
  std::uint64_t fetched = 0;  // from the cache
  double seconds = 0;         // spent on making them
  const std::uint32_t milliseconds;

 private:
  std::shared_ptr<StoredPlan> find(const PlanName& name);
  void enter(const std::shared_ptr<StoredPlan>& plan);

  PlanExchange* cache_;
  std::uint64_t most_height_;
  std::uint64_t turn_ = 0;
  std::unordered_set<std::uint64_t> seen_;  // streams whose plan was made, or read
};

}  // namespace memo::gpu
