// The plan cache (src/io/plan_cache.h) for GPUs: what is learned of a stream's sizes is found by
// other devices, other streams and other processes. A plan holds wherever the sizes come, so
// neither the device's number nor its kind is a part of its name; the tensors' alignment, which is,
// keeps it apart from a processor's. Any thread; cold.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/options.h"
#include "src/follow/plan.h"
#include "src/follow/plan_name.h"
#include "src/io/shared_file.h"

namespace memo::gpu {

// A plan, whoever made it.
struct StoredPlan {
  Plan plan;
  std::uint32_t iteration = 0;  // steps of one iteration
  PlanName name;                // no keys: there was no memory for it
  bool fetched = false;         // from the cache: its places are a guess
  bool wrong = false;           // they were not free: nobody takes it up any more
  std::uint64_t turn = 0;       // of PlanStore: when it was served last

  [[nodiscard]] StepIndex behind(std::uint64_t key) const;
};

class PlanExchange {
 public:
  // Says on stderr why the folder is not used.
  PlanExchange(const char* folder, Trust trust);

  // The plans that have calls with the key.
  std::vector<PlanName> with_key(std::uint64_t key);
  // A plan of at most `most` bytes. None if it is gone, is no GPU's, or cannot be used, which is
  // said once. Reads a file.
  std::optional<StoredPlan> load(const PlanName& name, std::uint64_t most);
  // Has the plan saved by the next write(), and wrong ones of the same calls removed.
  void save(std::shared_ptr<const StoredPlan> plan, std::vector<PlanName> wrong);
  // Writes what was given to save(), and learns of the plans that others have saved since. May wait
  // for another process; no device's lock may be held.
  void write();

 private:
  struct Task {
    std::shared_ptr<const StoredPlan> plan;
    std::vector<PlanName> wrong;
  };
  void list();
  void enter(const PlanName& name);

  std::mutex lock_;     // what follows
  std::string folder_;  // empty: no cache
  Trust trust_;
  std::unordered_map<std::uint64_t, std::vector<PlanName>> by_key_;
  std::deque<Task> tasks_;
  bool complained_ = false;
  std::mutex writing_;  // one thread writes; held outside lock_
  FileMark listed_;
};

}  // namespace memo::gpu
