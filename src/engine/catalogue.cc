#include "src/engine/catalogue.h"

#include <new>

#include "src/base/bits.h"
#include "src/base/os.h"

namespace memo {

bool Catalogue::open() {
  constexpr std::uint64_t kPlans = kMaxCatalogue * sizeof(Outside);
  constexpr std::uint64_t kIndex = kSlots * sizeof(std::atomic<std::uint32_t>);
  if (opened()) {
    return true;
  }
  auto* memory = static_cast<char*>(os::map(kPlans + kIndex));
  if (memory == nullptr) {
    return false;
  }
  slots_ = reinterpret_cast<std::atomic<std::uint32_t>*>(memory + kPlans);
  plans_.store(reinterpret_cast<Outside*>(memory), std::memory_order_release);
  return true;
}

// A plan with the key: with `stream`, the one of that stream; with 0, one that nobody has taken.
Catalogue::Outside* Catalogue::find(std::uint64_t key, std::uint64_t stream) const {
  Outside* const plans = plans_.load(std::memory_order_acquire);
  if (plans == nullptr || key == 0) {
    return nullptr;
  }
  for (std::uint64_t slot = key % kSlots;; slot = (slot + 1) % kSlots) {
    const std::uint32_t entry = slots_[slot].load(std::memory_order_acquire);
    if (entry == 0) {
      return nullptr;
    }
    Outside& plan = plans[(entry - 1) / kPlanKeys];
    if (plan.name.keys[(entry - 1) % kPlanKeys] == key &&
        (stream != 0 ? plan.name.stream == stream : !plan.taken.load(std::memory_order_acquire))) {
      return &plan;
    }
  }
}

bool Catalogue::add(const PlanName& name) {
  if (!opened() || count_ == kMaxCatalogue || name.keys[0] == 0 || name.stream == 0 ||
      find(name.keys[0], name.stream) != nullptr) {
    return false;
  }
  // Mapped memory is zeroed: a plan that nobody has taken.
  Outside& plan = plans_.load(std::memory_order_relaxed)[count_];
  plan.name = name;
  for (std::uint32_t number = 0; number < kPlanKeys; ++number) {
    enter(count_, number);
  }
  ++count_;
  return true;
}

// There is always a free slot: they are twice as many as keys.
void Catalogue::enter(std::uint32_t plan, std::uint32_t number) {
  const PlanName& name = plans_.load(std::memory_order_relaxed)[plan].name;
  const std::uint64_t key = name.keys[number];
  for (std::uint32_t before = 0; before < number; ++before) {
    if (name.keys[before] == key) {
      return;
    }
  }
  if (key == 0) {
    return;
  }
  std::uint64_t slot = key % kSlots;
  while (slots_[slot].load(std::memory_order_relaxed) != 0) {
    slot = (slot + 1) % kSlots;
  }
  slots_[slot].store(plan * kPlanKeys + number + 1, std::memory_order_release);
  filter_[key / 64 % kFilterWords].fetch_or(std::uint64_t{1} << key % 64,
                                            std::memory_order_release);
}

}  // namespace memo
