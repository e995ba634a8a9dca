// Runs one thread's recorded stream through learning and serving, as the engine would, with a page
// map but without memory. Cold.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "dsa/problem.h"
#include "src/cli/trace_reader.h"
#include "src/learn/learn.h"
#include "src/learn/symbolic.h"

namespace memo::cli {

struct Analysis {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;  // of all allocations
  // Of the latest period that was learned, none if there was none; `first` counts from the stream's
  // start.
  std::optional<Period> period;
  std::uint32_t unplanned = 0;  // length of the latest period that got no plan in time, 0 if none
  bool repeats = false;         // the stream's end still follows the period
  std::uint64_t locked_after = 0;  // allocations made when the first period was found, 0 if none
  std::uint32_t plans = 0;         // periods learned, one after the other
  std::uint64_t lower_bound = 0;   // bytes: greatest load of the planned blocks, sizes as asked for
  std::uint64_t height = 0;        // bytes of slab
  std::uint32_t wrapping = 0;      // planned blocks whose lifetime wraps into the next iteration
  std::uint32_t left_out = 0;  // blocks of an iteration that the plan leaves to the next allocator
  std::uint64_t served_bytes = 0;  // placed in the slab, from the first lock on
  std::uint64_t bytes_since_lock = 0;
  double plan_seconds = 0;  // of all plans
  dsa::Problem problem;     // of the latest period
};

// What a program allocates after its loop hides what the loop repeats. These are the shares of the
// stream, counted from its end, that are left out one after the other: one in so many.
inline constexpr std::size_t kCuts[] = {64, 16, 8, 4, 2};

// The stream's iterations of changing shape, where sizes follow from each iteration's first one.
std::optional<SymbolicInput> find_changing_shapes(std::span<const Allocation> stream);

// `options.marks` and `options.min_run` are ignored: the finder must do without what a host tells.
Analysis simulate(const Stream& stream, const LearnOptions& options);

}  // namespace memo::cli
