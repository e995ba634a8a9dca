// The plans of the process, as they are written to files. Cold.
#pragma once

#include <cstdint>
#include <span>

#include "preload/process.h"
#include "src/base/tuning.h"
#include "src/engine/plan_store.h"
#include "src/io/plan_file.h"

namespace memo {

inline constexpr std::uint64_t kNoPlans = 0;

// A number for one plan, that changes when a lower one takes its place.
inline std::uint64_t mark_of(const StoredPlan& plan) {
  return (plan.generation + 1) * 0x9e3779b97f4a7c15U ^
         reinterpret_cast<std::uint64_t>(plan.best().get());
}

// All plans of the process, kept as they are while this lives.
class HeldPlans {
 public:
  HeldPlans() {
    g_process.engine.plans.for_each([&](StoredPlan& plan) {
      mark_ += mark_of(plan);
      plans_[count_] = &plan;
      saved_[count_++] = {plan.best().get(), plan.iteration};
    });
  }
  ~HeldPlans() {
    for (std::uint32_t i = 0; i < count_; ++i) {
      g_process.engine.plans.release(*plans_[i]);
    }
  }
  HeldPlans(const HeldPlans&) = delete;
  HeldPlans& operator=(const HeldPlans&) = delete;
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::uint64_t mark() const { return mark_; }
  [[nodiscard]] std::span<const SavedPlan> plans() const { return {saved_, count_}; }
  [[nodiscard]] const StoredPlan& plan(std::uint32_t i) const { return *plans_[i]; }

 private:
  StoredPlan* plans_[tuning::kMaxPlans] = {};
  SavedPlan saved_[tuning::kMaxPlans] = {};
  std::uint32_t count_ = 0;
  std::uint64_t mark_ = kNoPlans;
};

}  // namespace memo
