// What a report says first. Cold.
#include <algorithm>
#include <cstdint>

#include "src/cli/base/process_rows.h"
#include "src/cli/report/report_page.h"

namespace memo::cli {
namespace {

using nlohmann::json;

// Of what was asked for, percent that was planned or reused; from there on a program is served
// well.
constexpr std::int64_t kWell = 90;

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) {
    text.insert(at - 3, ",");
  }
  return text;
}

// "12.3 % above the least possible", of a height.
std::string above(const ThreadMap& map) {
  if (map.height <= map.lower_bound) {
    return "which is the least possible";
  }
  char text[64];
  std::snprintf(text, sizeof text, "%.2f %% above the bound that no plan is below",
                100.0 * static_cast<double>(map.height - map.lower_bound) /
                    static_cast<double>(std::max<std::uint64_t>(map.lower_bound, 1)));
  return text;
}

// The reason of most calls that were not served.
std::string main_reason(const json& statistics) {
  std::string reason;
  std::int64_t most = 0;
  const json reasons = statistics.value("fallback", json::object());
  for (const auto& [name, calls] : reasons.items()) {
    if (number_in(reasons, name.c_str()) > most) {
      most = number_in(reasons, name.c_str());
      reason = name;
    }
  }
  return reason;
}

Answer of_statistics(const json& statistics) {
  const std::int64_t all = number_in(statistics, "large_bytes");
  const std::int64_t planned = number_in(statistics, "planned_bytes");
  const std::int64_t at_hand = number_in(statistics, "at_hand_bytes");
  if (all == 0) {
    return {"The program made no large allocations, so there was nothing to serve.",
            "`memomalloc doctor -- COMMAND` tells what may hide them."};
  }
  if (statistics.contains("observed")) {
    return {"Serving would have spared " +
                grouped(static_cast<std::uint64_t>(
                    number_in(statistics.at("observed"), "page_faults"))) +
                " page faults; the program was only observed.",
            "Serve it: `memomalloc run -- COMMAND`, without --observe."};
  }
  const std::string what =
      percent(planned + at_hand, all) + " of " + mebibytes(all) + " were planned or reused (" +
      percent(planned, all) + " by plan), which spared the program " +
      grouped(static_cast<std::uint64_t>((planned + at_hand) / 4096)) + " page faults at most.";
  if (planned == 0 && at_hand * 100 >= all * kWell) {
    return {what, "No plan was needed, so there is nothing to set: the pool had the memory."};
  }
  if ((planned + at_hand) * 100 >= all * kWell) {
    return {
        what,
        "Keep it: `memomalloc run --plans DIRECTORY -- COMMAND` also serves the next start from "
        "its first iterations on."};
  }
  const std::string reason = main_reason(statistics);
  return {what, (reason.empty() ? "" : "Most of the rest: " + reason + " (see below). ") +
                    "`memomalloc doctor -- COMMAND` tells what stands in the way."};
}

Answer of_map(const ThreadMap& map, Report::Source source) {
  if (map.blocks.empty()) {
    return {"No plan was found for the blocks shown.",
            "Give the planner more time (`--seconds`), or leave small blocks out (`--threshold`)."};
  }
  const std::string blocks =
      grouped(map.blocks.size()) + (map.blocks.size() == 1 ? " block" : " blocks");
  const std::string height = mebibytes(static_cast<std::int64_t>(map.height));
  const std::string glibc = map.glibc_bytes == 0
                                ? ""
                                : "; glibc took " +
                                      mebibytes(static_cast<std::int64_t>(map.glibc_bytes)) +
                                      " for the same blocks";
  if (source == Report::Source::kProblem) {
    return {
        grouped(map.allocations) + (map.allocations == 1 ? " buffer fits" : " buffers fit") +
            " into " + height + ", " + above(map) + ".",
        std::string("`memomalloc plan PROBLEM.csv --output PLAN.csv` writes the offsets") +
            (map.height > map.lower_bound ? "; `--seconds` gives the planner more time." : ".")};
  }
  if (source == Report::Source::kSnapshot) {
    return {"The " + blocks + " shown fit into " + height + ", " + above(map) + ".",
            "`memomalloc plan SNAPSHOT --output PLAN.csv` writes the offsets."};
  }
  if (!map.period) {
    return {"Nothing repeats in this trace; its " + blocks + " would fit into " + height + ", " +
                above(map) + glibc + ".",
            "Record more of the loop: `memomalloc run --trace-file TRACE.csv -- COMMAND`, with at "
            "least five iterations, more where one has few large blocks."};
  }
  const std::uint32_t unroll = map.period->unroll;
  const std::string shown = unroll > 1 ? std::to_string(unroll) + " iterations" : "an iteration";
  return {
      "The " + blocks + " of " + shown + " fit into " + height + ", " + above(map) + glibc + ".",
      "Try it: `memomalloc run -- COMMAND` serves the program by such a plan; `memomalloc "
      "compare -- COMMAND` measures what that wins."};
}

}  // namespace

Answer answer_of(const Report& report) {
  if (report.statistics.is_object()) {
    return of_statistics(report.statistics);
  }
  return of_map(report.maps.front(), report.source);
}

}  // namespace memo::cli
