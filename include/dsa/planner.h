// The planner library's interface: choose a strategy by name, get offsets. Cold and pure: no global
// state, no output; any number of threads may plan at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "dsa/problem.h"

namespace dsa {

struct Options {
  std::optional<Bytes> capacity = {};  // stop at the first plan of at most this height
  double seconds = 10;  // most time to spend, in seconds, kept within one step of a search
  // Equal problem, options and seed give the equal plan while time suffices.
  std::uint64_t seed = 1;
  const std::atomic<bool>* stop = nullptr;  // set by another thread: return the best so far
};

struct Outcome {
  std::optional<Plan> plan = {};  // none if the strategy found no plan (within capacity or time)
  Bytes lower_bound = 0;          // no plan can be lower than this
  bool optimal = false;           // the plan's height is proved to be the least possible
  // It is proved that there is no plan (within the capacity, if one is given).
  bool infeasible = false;
  double seconds = 0;            // wall time of the planning alone
  std::string_view reason = {};  // why there is no plan; empty if there is one
};

// A row of the registry (planner/planners.def).
struct Planner {
  std::string_view name;    // as users write it: "greedy-by-size"
  bool exact = false;       // finds the optimum, given time
  std::string_view source;  // paper and section
  // Never throws, so that a noexcept caller may call it: out of memory is "no plan".
  Outcome (*run)(const Problem&, const Options&);
};

std::span<const Planner> planners();                 // every strategy, cheapest first
const Planner* find_planner(std::string_view name);  // nullptr if there is none of that name

// Plans with the portfolio: the cheapest strategies first, stopping at the lower bound or the
// deadline. Never throws.
Outcome plan(const Problem& problem, const Options& options = {});

// The greatest sum of sizes alive at one time, or the end of the highest fixed buffer if that is
// more. Where all alignments have a common divisor, all sizes but one are rounded up to it. No plan
// is lower. INT64_MAX of a problem that is not well formed (see dsa::validate).
Bytes lower_bound(const Problem& problem);

}  // namespace dsa
