// See layout.h. Hot.
#include "src/follow/layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/bits.h"
#include "src/base/os.h"

namespace memo {
namespace {

// What a block of `bytes` takes, in whole granules.
std::uint64_t room_of(std::uint64_t bytes) {
  return bytes_of(granules_of(std::max<std::uint64_t>(bytes, 1)));
}

}  // namespace

bool Layout::open(const SymbolicPlan& plan) {
  if (plan.count > capacity_) {
    // Twice as much each time, since this memory is never given back.
    const std::uint32_t capacity = std::bit_ceil(plan.count);
    const std::uint64_t each = sizeof(Step) + 2 * sizeof(std::uint64_t);
    const std::uint64_t words = ContextIndex::words(capacity);
    auto* memory = static_cast<char*>(os::map(capacity * each + words * sizeof(std::uint32_t)));
    if (memory == nullptr) {
      return false;
    }
    steps_ = reinterpret_cast<Step*>(memory);
    sizes_ = reinterpret_cast<std::uint64_t*>(steps_ + capacity);
    offsets_ = sizes_ + capacity;
    index_memory_ = reinterpret_cast<std::uint32_t*>(offsets_ + capacity);
    capacity_ = capacity;
  }
  plan_ = &plan;
  first_ = largest_ = 0;
  return true;
}

// The plan's steps one upon the other, as they support each other; returns the height in bytes.
// Source: the order of a placement as a directed graph, whose longest paths are the addresses, as
// in the sequence of a compaction (Lengauer, Combinatorial Algorithms for Integrated Circuit
// Layout, chapter 10).
std::uint64_t Layout::place() {
  for (std::uint32_t i = 0; i < plan_->count; ++i) {
    sizes_[i] = plan_->steps[i].rule.bytes(first_);
    offsets_[i] = 0;
  }
  const auto visible = [this](std::uint32_t i) {
    return plan_->steps[i].planned && sizes_[i] >= plan_->least;
  };
  for (std::uint32_t i = 0; i < plan_->support_count; ++i) {
    const std::uint32_t above = plan_->supports[i].above.count();
    const std::uint32_t below = plan_->supports[i].below.count();
    const std::uint64_t top = offsets_[below] + (visible(below) ? room_of(sizes_[below]) : 0);
    const std::uint64_t alignment =
        std::max(kGranule, std::uint64_t{1} << plan_->steps[above].alignment_log2);
    offsets_[above] = std::max(offsets_[above], round_up(top, alignment));
  }
  std::uint64_t height = 0;
  for (std::uint32_t i = 0; i < plan_->count; ++i) {
    height = std::max(height, visible(i) ? offsets_[i] + room_of(sizes_[i]) : 0);
  }
  return height;
}

// The greatest sum of planned bytes alive at once. Uses offsets_ as scratch.
std::uint64_t Layout::load() {
  const std::uint32_t count = plan_->count;
  std::fill_n(offsets_, count, 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const SymbolicStep& step = plan_->steps[i];
    if (!step.planned || sizes_[i] < plan_->least) {
      continue;
    }
    offsets_[i] += sizes_[i];
    if (i + step.lifetime < count) {
      offsets_[i + step.lifetime] -= sizes_[i];
    }
  }
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    live += offsets_[i];
    most = std::max(most, live);
  }
  return most;
}

bool Layout::lay_out(std::uint64_t first, std::uint64_t limit) {
  first_ = first;
  const std::uint64_t height = place();
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < plan_->count; ++i) {
    const SymbolicStep& step = plan_->steps[i];
    if (sizes_[i] >= plan_->least) {
      steps_[count++] = {sizes_[i],     step.planned ? offsets_[i] : kUnplanned,
                         step.site,     step.alignment_log2,
                         step.lifetime, step.elastic};
    }
  }
  if (count == 0 || height > limit) {
    return false;
  }
  schedule_.steps = steps_;
  schedule_.count = count;
  schedule_.height = height;
  std::memset(index_memory_, 0, ContextIndex::words(count) * sizeof(std::uint32_t));
  index_.build(schedule_, index_memory_);
  if (first > largest_) {
    largest_ = first;
    schedule_.lower_bound = load();
  }
  return true;
}

StepIndex Layout::position_of(StepIndex step) const {
  StepIndex position;
  for (StepIndex i; i < step; ++i) {
    position += StepIndex{plan_->hidden(i, first_) ? 0U : 1U};
  }
  return position % schedule_.end();
}

}  // namespace memo
