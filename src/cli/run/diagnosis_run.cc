// The checks after the command ran. Cold.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "src/cli/run/diagnosis.h"
#include "src/cli/run/hiders.h"
#include "src/cli/run/loader.h"

namespace memo::cli {
namespace {

using nlohmann::json;

// The reasons of fallbacks, the most frequent first: "size 12, order 3".
std::string reasons(const json& statistics) {
  std::vector<std::pair<std::int64_t, std::string>> counts;
  if (const auto found = statistics.find("fallback");
      found != statistics.end() && found->is_object()) {
    for (const auto& [reason, count] : found->items()) {
      if (count.is_number() && count.get<std::int64_t>() > 0) {
        counts.emplace_back(count.get<std::int64_t>(), reason);
      }
    }
  }
  std::sort(counts.rbegin(), counts.rend());
  std::string text;
  for (const auto& [count, reason] : counts) {
    text += (text.empty() ? "" : ", ") + reason + " " + std::to_string(count);
  }
  return text.empty() ? "none" : text;
}

Finding examine_learning(const json& statistics, std::int64_t allocations) {
  const std::int64_t plans = number_in(statistics, "plans");
  const std::int64_t loaded = number_in(statistics, "plans_loaded");
  if (plans + loaded > 0) {
    const std::int64_t calls = number_in(statistics, "symbolic_calls");
    const std::string from_file =
        loaded > 0 ? ", " + std::to_string(loaded) + " of them from the store of plans" : "";
    const std::string shapes =
        calls > 0 ? "; changing shapes: " + std::to_string(calls) + " calls, planned for " +
                        std::to_string(number_in(statistics, "shapes")) + " shapes"
                  : "";
    return {Level::kGood, "learning",
            "plans: " + std::to_string(plans + loaded) + from_file + "; slab " +
                mebibytes(number_in(statistics, "slab_bytes")) + ", least possible " +
                mebibytes(number_in(statistics, "lower_bound_bytes")) + shapes,
            ""};
  }
  const std::string none =
      "nothing repeats in " + std::to_string(allocations) + " large allocations";
  if (number_in(statistics, "at_hand_bytes") > 0 && number_in(statistics, "served_bytes") > 0) {
    return {Level::kNote, "learning", none + "; the pool serves them",
            "nothing, if the threads allocate in no fixed order; a loop of few calls needs more "
            "iterations"};
  }
  return {Level::kFault, "learning", none,
          "run more iterations, at least 4 of one shape; to see what repeats: `memomalloc run "
          "--trace-file trace.csv -- COMMAND`, then `memomalloc analyze trace.csv`"};
}

Finding examine_serving(const json& statistics) {
  const json since = statistics.value("since_serving", json::object());
  const std::int64_t large_since = number_in(since, "large_bytes");
  const std::int64_t served_since = number_in(since, "served_bytes");
  if (served_since == 0) {
    return {Level::kFault, "serving", "no block was served; fallbacks: " + reasons(statistics),
            "run more iterations after the learning ones; a fallback `limit` asks for a greater "
            "MEMOMALLOC_SLAB_LIMIT"};
  }
  const std::int64_t large = number_in(statistics, "large_bytes");
  const std::int64_t planned = number_in(statistics, "planned_bytes");
  const std::int64_t at_hand = number_in(statistics, "at_hand_bytes");
  const std::string share = percent(planned + at_hand, large) + " of all large bytes, " +
                            percent(served_since, large_since) + " since serving began (" +
                            percent(planned, large) + " from the plan's slab, " +
                            percent(at_hand, large) + " from the pool)";
  if (served_since * 2 < large_since) {
    return {Level::kNote, "serving", "little: " + share + "; fallbacks: " + reasons(statistics),
            "`size` and `order` mean changing shapes: `memomalloc report` shows them"};
  }
  return {Level::kGood, "serving", share, ""};
}

void add_hidden(const std::set<std::string>& mapped, std::vector<Finding>& findings) {
  std::set<std::string_view> told;  // one finding, however many files a hider has
  for (const std::string& path : mapped) {
    for (const Hider& hider : kHiders) {
      if (is_from(hider, path) && !is_open(hider) && told.insert(hider.what).second) {
        const std::string name = std::filesystem::path(path).filename();
        findings.push_back({Level::kNote, "hidden", name + ": " + hider.what, hider.advice});
      }
    }
  }
}

// The process by which the command is judged: of those that do the work the busiest that is served;
// if those that are not have most of the bytes, the busiest of them.
const ProcessRow& judged_by(const std::vector<ProcessRow>& rows) {
  const ProcessRow* busiest[2] = {};
  std::int64_t bytes[2] = {};
  for (const ProcessRow& row : rows) {  // the busiest first
    if (row.works) {
      const std::size_t kind = row.served() ? 1 : 0;
      busiest[kind] = busiest[kind] == nullptr ? &row : busiest[kind];
      bytes[kind] += row.large;
    }
  }
  return *busiest[busiest[0] == nullptr || (busiest[1] != nullptr && bytes[1] >= bytes[0]) ? 1 : 0];
}

// Processes that work and are not served as the judged one is.
void add_unserved(const std::vector<ProcessRow>& rows, const ProcessRow& judged,
                  std::vector<Finding>& findings) {
  constexpr std::int64_t kMuch = 20;  // of the judged one's bytes, one part in
  for (const ProcessRow& row : rows) {
    if (row.works && judged.served() && !row.served() && row.large >= judged.large / kMuch) {
      findings.push_back({Level::kNote, "serving",
                          "process " + std::to_string(row.pid) + " is not served: it made " +
                              std::to_string(row.calls) + " large allocations",
                          "it may have had too few requests yet, or do another kind of work"});
    }
  }
}

// A line for each process that counts, and one for all others: a version manager's `python` is a
// shell script that starts twenty small programs.
void add_processes(const std::vector<ProcessRow>& rows, std::int64_t all,
                   std::vector<Finding>& findings) {
  constexpr std::int64_t kLittle = 100;  // of all large bytes, one part in
  std::int64_t left_out = 0;
  std::int64_t bytes = 0;
  for (const ProcessRow& row : rows) {
    if (row.served() || row.large >= all / kLittle) {
      findings.push_back({Level::kGood, "process", describe(row), ""});
    } else {
      ++left_out;
      bytes += row.large;
    }
  }
  if (left_out > 0) {
    findings.push_back({Level::kGood, "process",
                        std::to_string(left_out) + " more, with " + mebibytes(bytes) +
                            " together: too little to matter",
                        ""});
  }
}

}  // namespace

std::vector<Finding> examine_run(const std::vector<ProcessRow>& rows,
                                 const std::set<std::string>& mapped) {
  std::vector<Finding> findings;
  add_hidden(mapped, findings);
  const ProcessRow sum = sum_of(rows);
  if (sum.calls == 0) {
    const bool was_mapped = std::any_of(mapped.begin(), mapped.end(), [](const std::string& path) {
      return path.find("libmemomalloc.so") != std::string::npos;
    });
    findings.push_back(
        {Level::kFault, "seen",
         was_mapped ? "the library was loaded, but saw few large allocations or none"
                    : "no process of the command made large allocations",
         "does the network run in this command? MEMOMALLOC_THRESHOLD=4K also serves smaller "
         "blocks; MEMOMALLOC_VERBOSE=1 tells which processes have the library"});
    return findings;
  }
  findings.push_back({Level::kGood, "seen",
                      std::to_string(sum.calls) + " large allocations, " + mebibytes(sum.large) +
                          ", in " +
                          (rows.size() == 1 ? "process " + std::to_string(rows[0].pid)
                                            : std::to_string(rows.size()) + " processes"),
                      ""});
  if (rows.size() > 1) {
    add_processes(rows, sum.large, findings);
  }
  const ProcessRow& judged = judged_by(rows);
  const std::size_t first = findings.size();
  findings.push_back(examine_learning(judged.statistics, judged.calls));
  if (findings.back().level != Level::kFault) {
    findings.push_back(examine_serving(judged.statistics));
  }
  if (rows.size() > 1) {
    for (std::size_t i = first; i < findings.size(); ++i) {
      findings[i].what = "process " + std::to_string(judged.pid) + ": " + findings[i].what;
    }
    add_unserved(rows, judged, findings);
  }
  return findings;
}

}  // namespace memo::cli
