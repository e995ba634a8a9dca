// Which plans lie outside the process, by the keys of their calls: what a lane looks at for each
// call that no plan places. Hot to ask; entries are only ever added, by one thread at a time, so
// that asking takes no lock.
//
//   slots   | 0 | 7 | 0 | 3 | ...    plan and key number, by the key's hash; 0: free
//   plans   | name, taken | name, taken | ...
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "src/base/lock.h"
#include "src/follow/plan_name.h"

namespace memo {

// Plans of a cache that a process knows of: more than a cache keeps.
inline constexpr std::uint32_t kMaxCatalogue = std::bit_ceil(tuning::kMaxCachedPlans);

class Catalogue {
 public:
  // Takes address space for all entries; memory as they come. False where the system refuses it.
  bool open();
  [[nodiscard]] bool opened() const { return plans_.load(std::memory_order_acquire) != nullptr; }
  // There is a plan with this key that nobody has taken. Any thread.
  [[nodiscard]] bool has(std::uint64_t key) const {
    const std::uint64_t bits = filter_[key / 64 % kFilterWords].load(std::memory_order_relaxed);
    return (bits >> key % 64 & 1U) != 0 && find(key, 0) != nullptr;
  }

  // Key of the first calls that a lane of this process has heard; 0: none yet. Any thread.
  [[nodiscard]] std::uint64_t beginning() const {
    return beginning_.load(std::memory_order_relaxed);
  }
  void note_beginning(std::uint64_t key) {
    std::uint64_t none = 0;
    beginning_.compare_exchange_strong(none, key, std::memory_order_relaxed);
  }
  // In a forked child, which starts again.
  void forget_beginning() { beginning_ = 0; }

  // What follows is for one thread at a time.

  // False if the plan is known, or there is no room for it.
  bool add(const PlanName& name);
  // Runs function(name) for each plan with the key that nobody has taken, at most `most`; they are
  // taken then. Where it answers false that one is not, and those behind it wait as well.
  template <typename Function>
  void take(std::uint64_t key, std::uint32_t most, Function&& function) {
    for (std::uint32_t i = 0; i < most; ++i) {
      Outside* plan = find(key, 0);
      if (plan == nullptr) {
        return;
      }
      plan->taken.store(true, std::memory_order_release);
      if (!function(plan->name)) {
        plan->taken.store(false, std::memory_order_release);
        return;
      }
    }
  }
  // The plan may be taken again: the process no longer has it.
  void put_back(const PlanName& name) {
    if (Outside* const plan = find(name.keys[0], name.stream); plan != nullptr) {
      plan->taken.store(false, std::memory_order_release);
    }
  }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  struct Outside {
    PlanName name;
    std::atomic<bool> taken{false};
  };
  static constexpr std::uint32_t kSlots = 2 * kMaxCatalogue * kPlanKeys;
  static_assert((kSlots & (kSlots - 1)) == 0);
  static constexpr std::uint32_t kFilterWords = 512;
  [[nodiscard]] Outside* find(std::uint64_t key, std::uint64_t stream) const;
  void enter(std::uint32_t plan, std::uint32_t number);

  std::atomic<Outside*> plans_{nullptr};         // of kMaxCatalogue
  std::atomic<std::uint32_t>* slots_ = nullptr;  // of kSlots
  std::uint32_t count_ = 0;
  std::atomic<std::uint64_t> beginning_{0};
  // A bit for each key: asking for others, as nearly all calls do, touches no slot.
  std::atomic<std::uint64_t> filter_[kFilterWords] = {};
};

}  // namespace memo
