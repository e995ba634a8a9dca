// Runs a recorded trace through the engine's lanes, as the process itself would have done, but for
// what no trace holds: how long something took, and what the kernel answered. Nobody writes to the
// blocks, so that they cost addresses and page maps only. Cold.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsa/problem.h"
#include "src/cli/trace/trace_reader.h"
#include "src/engine/tracker.h"
#include "src/learn/learn.h"
#include "src/learn/symbolic.h"

namespace memo::cli {

// A phase of a lane, and how many allocations were made when it began.
struct PhaseSpan {
  Phase phase = Phase::kIdle;
  std::uint64_t from = 0;
};

// What a thread asked for in one iteration, from one of the host's marks to the next.
struct IterationBytes {
  std::uint64_t asked = 0;
  std::uint64_t planned = 0;  // of these, from a slab
  std::uint64_t at_hand = 0;  // of these, from what the pool held
  std::uint64_t fresh = 0;    // of pool and slab that were touched first: page faults
};

// Plans that were served before they were believed.
struct Trials {
  std::uint64_t begun = 0;
  std::uint64_t lost = 0;
  std::uint64_t lost_bytes =
      0;  // of those, the slabs' heights: at most so much was touched in vain
};

// What became of one thread's stream.
struct Analysis {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;  // of all allocations
  // Of the latest plan of fixed sizes that was no trial that failed, none if there was none;
  // `first` counts from the stream's start, and where another thread has learned the plan, from
  // where this one took it up.
  std::optional<Period> period;
  Loop loop;                       // the latest that was seen while nothing was served
  StandingWords standing;          // what is made of it
  std::uint32_t unplanned = 0;     // length of the period that got no plan in time, 0 if none
  bool repeats = false;            // the stream's end still follows the period
  std::uint64_t locked_after = 0;  // allocations made when there was a plan first, 0 if never
  std::uint64_t plans = 0;         // made by this thread, one after the other
  std::uint64_t plan_changes = 0;  // times that another plan was taken up
  std::uint64_t lower_bound = 0;   // bytes: greatest load of the planned blocks, sizes as asked for
  std::uint64_t height = 0;        // bytes of slab
  std::uint32_t wrapping = 0;      // planned blocks whose lifetime wraps into the next iteration
  std::uint32_t left_out = 0;      // blocks of an iteration that the plan leaves to the pool
  std::uint64_t served_bytes = 0;  // placed in the slab
  // From the first call on that a plan was served to, but for trials that failed, of which only
  // what they served counts.
  std::uint64_t bytes_since_lock = 0;
  double plan_seconds = 0;  // of all plans
  dsa::Problem problem;     // of the period
  std::vector<PhaseSpan> phases;
  std::vector<IterationBytes> iterations;  // as the host has told them, which the engine was not
  Trials trials;
  Counters counters;
};
using Analyses = std::map<std::uint32_t, Analysis>;  // by thread

struct Rehearsal {
  std::string planner = "portfolio";
  std::uint32_t plan_milliseconds = 20;
  std::uint64_t threshold = 65536;  // bytes; smaller blocks are not in the streams
  // As the run that recorded the trace: it noted every call, with its call stack, in one log.
  bool recorded = false;
  const std::atomic<bool>* stop = nullptr;  // may be set meanwhile: the rest is left out
};

// All threads together, in the trace's order. Marked iterations are not passed on: the finder must
// do without. False where there are not enough addresses.
bool rehearse(const Streams& streams, const Rehearsal& how, Analyses& analyses);

// What a program allocates after its loop hides what the loop repeats. These are the shares of the
// stream, counted from its end, that are left out one after the other: one in so many.
inline constexpr std::size_t kCuts[] = {64, 16, 8, 4, 2};

// The stream's iterations of changing shape, where sizes follow from each iteration's first one.
std::optional<SymbolicInput> find_changing_shapes(std::span<const Allocation> stream);

}  // namespace memo::cli
