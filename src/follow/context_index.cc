#include "src/follow/context_index.h"

#include <bit>

#include "src/base/tuning.h"

namespace memo {
namespace {

std::uint64_t hash(const std::uint64_t (&sizes)[kContext]) {
  std::uint64_t mixed = 0;
  for (const std::uint64_t size : sizes) {
    mixed = (std::rotl(mixed, 23) ^ size) * 0x9E3779B97F4A7C15ULL;  // the golden ratio's multiplier
  }
  return mixed ^ (mixed >> 32);
}

void context_of(const Schedule& schedule, StepIndex step, std::uint64_t (&sizes)[kContext]) {
  for (std::uint32_t i = 0; i < kContext; ++i) {
    const StepIndex back = StepIndex{kContext - 1 - i} % schedule.end();
    sizes[i] = schedule.at((step + schedule.end() - back) % schedule.end()).size;
  }
}

}  // namespace

std::uint64_t ContextIndex::words(std::uint32_t count) {
  return std::bit_ceil(std::uint64_t{count} * 2) + count;
}

void ContextIndex::build(const Schedule& schedule, std::uint32_t* memory) {
  const std::uint64_t slots = words(schedule.count) - schedule.count;
  heads_ = memory;
  next_ = memory + slots;
  mask_ = static_cast<std::uint32_t>(slots - 1);
  for (std::uint32_t step = schedule.count; step-- > 0;) {  // backwards, so that chains ascend
    std::uint64_t sizes[kContext];
    context_of(schedule, StepIndex{step}, sizes);
    std::uint32_t& head = heads_[hash(sizes) & mask_];
    next_[step] = head;
    head = step + 1;
  }
}

StepIndex ContextIndex::find(const Schedule& schedule, const Recent& recent, StepIndex from) const {
  StepIndex first = kNoStep;
  std::uint64_t candidates = 0;
  for (std::uint32_t at = heads_[hash(recent.sizes) & mask_];
       at != 0 && candidates < tuning::kCallWork; at = next_[at - 1], ++candidates) {
    const StepIndex step{at - 1};
    std::uint64_t sizes[kContext];
    context_of(schedule, step, sizes);
    bool equal = true;
    for (std::uint32_t i = 0; i < kContext; ++i) {
      equal = equal && sizes[i] == recent.sizes[i];
    }
    if (!equal) {
      continue;
    }
    if (step >= from) {
      return step;
    }
    if (first == kNoStep) {
      first = step;
    }
  }
  return first;
}

}  // namespace memo
