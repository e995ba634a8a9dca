// What a plan becomes for serving: one step for each allocation of an iteration, in order.
// Immutable once published; any number of lanes read it at once. Hot: plain arrays, made by
// src/learn or src/io.
#pragma once

#include <cstdint>

namespace memo {

// Blocks in a slab begin and end on granules; the page map has one byte for each.
inline constexpr std::uint64_t kGranule = 4096;

inline constexpr std::uint64_t kUnplanned = UINT64_MAX;

struct Step {
  std::uint64_t size = 0;             // bytes, must be equal for the step to match
  std::uint64_t offset = kUnplanned;  // bytes from the slab's start, a multiple of kGranule and of
                                      // the alignment; kUnplanned: the block outlives its
                                      // iteration, the pool has it
  std::uint64_t site = 0;             // hash of the call stack when learned, 0 if unknown
  std::uint8_t alignment_log2 = 0;    // the greatest alignment that the learned calls asked for
  std::uint32_t lifetime = 0;         // allocations until it is freed; 0 where unknown
  bool elastic = false;               // a smaller block may have the place, too
};

struct SymbolicPlan;

struct Schedule {
  const Step* steps = nullptr;  // steps[0 .. count), owned by whoever made the schedule
  std::uint32_t count = 0;      // allocations in one iteration, at least 1
  std::uint64_t height = 0;     // bytes of slab that the plan needs, a multiple of kGranule
  std::uint64_t lower_bound =
      0;  // greatest sum of bytes (as asked for) alive at once, planned steps only
  double plan_seconds = 0;
  bool lowest = false;  // it is known that no plan is lower, or lifetimes are unknown: not searched
  // If not null, sizes and offsets follow from the iteration's first size (src/serve/symbolic.h),
  // and the steps here are one example. The schedule's owner owns it.
  const SymbolicPlan* symbolic = nullptr;
  // Blocks fill at least half of the slab at one time. Large alignments (blocks that begin at 64
  // MiB borders) leave most of it empty for ever: such a slab is not populated.
  [[nodiscard]] bool dense() const { return height / 2 <= lower_bound; }
};

}  // namespace memo
