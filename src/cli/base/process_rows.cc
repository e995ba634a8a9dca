// Processes by their statistics. Cold.
#include "src/cli/base/process_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "src/cli/base/text_table.h"

namespace memo::cli {
namespace {

using nlohmann::json;

ProcessRow row_of(const json& statistics) {
  ProcessRow row;
  row.pid = number_in(statistics, "pid");
  row.parent = number_in(statistics, "parent_pid");
  row.name = text_in(statistics, "process");
  row.phase = text_in(statistics, "phase");
  row.calls = number_in(statistics, "large_allocations");
  row.large = number_in(statistics, "large_bytes");
  row.planned = number_in(statistics, "planned_bytes");
  row.at_hand = number_in(statistics, "at_hand_bytes");
  row.other = number_in(statistics, "other_bytes");
  row.faults_avoided = number_in(statistics, "page_faults_avoided");
  row.slab = number_in(statistics, "slab_bytes");
  row.peak = number_in(statistics, "peak_bytes");
  row.statistics = statistics;
  return row;
}

// The processes that have started others which are served from plans, over any generation.
std::set<std::int64_t> parents_of_served(const std::vector<ProcessRow>& rows) {
  std::map<std::int64_t, std::int64_t> parents;
  for (const ProcessRow& row : rows) {
    parents[row.pid] = row.parent;
  }
  std::set<std::int64_t> found;
  for (const ProcessRow& row : rows) {
    auto at = row.planned > 0 ? parents.find(row.pid) : parents.end();
    while (at != parents.end() && found.insert(at->second).second) {
      at = parents.find(at->second);
    }
  }
  return found;
}

std::vector<std::string> cells(const ProcessRow& row, const std::string& number) {
  return {number,
          row.name + (row.works ? "" : " (forks)"),
          row.phase,
          std::to_string(row.calls),
          mebibytes(row.large),
          percent(row.planned, row.large),
          percent(row.at_hand, row.large),
          percent(row.other, row.large),
          std::to_string(row.faults_avoided),
          mebibytes(row.slab),
          mebibytes(row.peak)};
}

}  // namespace

std::string text_in(const json& statistics, const char* name) {
  const auto found = statistics.find(name);
  return found != statistics.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t number_in(const json& statistics, const char* name) {
  const auto found = statistics.find(name);
  return found != statistics.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  const double share =
      whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
  return std::to_string(std::lround(share)) + " %";
}

std::string mebibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

std::vector<ProcessRow> process_rows(const std::vector<json>& statistics) {
  std::vector<ProcessRow> rows;
  for (const json& one : statistics) {
    if (number_in(one, "large_allocations") > 0) {
      rows.push_back(row_of(one));
    }
  }
  const std::set<std::int64_t> parents = parents_of_served(rows);
  for (ProcessRow& row : rows) {
    row.works = row.planned > 0 || !parents.contains(row.pid);
  }
  std::sort(rows.begin(), rows.end(),
            [](const ProcessRow& a, const ProcessRow& b) { return a.large > b.large; });
  return rows;
}

ProcessRow sum_of(const std::vector<ProcessRow>& rows) {
  ProcessRow sum;
  sum.works = true;
  for (const ProcessRow& row : rows) {
    sum.calls += row.calls;
    sum.large += row.large;
    sum.planned += row.planned;
    sum.at_hand += row.at_hand;
    sum.other += row.other;
    sum.faults_avoided += row.faults_avoided;
    sum.slab += row.slab;
    sum.peak = std::max(sum.peak, row.peak);
  }
  return sum;
}

std::string describe(const ProcessRow& row) {
  return row.name + ", process " + std::to_string(row.pid) + ": " + row.phase + "; " +
         percent(row.planned + row.at_hand, row.large) + " of " + mebibytes(row.large) +
         " served (" + percent(row.planned, row.large) + " by plan, " +
         percent(row.at_hand, row.large) + " from the pool); at most " +
         std::to_string(row.faults_avoided) + " page faults avoided; slab " + mebibytes(row.slab) +
         ", peak " + mebibytes(row.peak) + (row.works ? "" : "; its children do the work");
}

std::string as_table(const std::vector<ProcessRow>& rows) {
  if (rows.empty()) {
    return "no process told of large allocations\n";
  }
  std::vector<std::vector<std::string>> table = {{"process", "name", "phase", "large calls",
                                                  "large", "planned", "reused", "other",
                                                  "faults avoided", "slab", "peak"}};
  for (const ProcessRow& row : rows) {
    table.push_back(cells(row, std::to_string(row.pid)));
  }
  table.push_back(cells(sum_of(rows), "sum"));
  return text_table(table);
}

json as_json(const std::vector<ProcessRow>& rows) {
  json all = json::array();
  for (const ProcessRow& row : rows) {
    all.push_back({{"pid", row.pid},
                   {"parent_pid", row.parent},
                   {"process", row.name},
                   {"phase", row.phase},
                   {"works", row.works},
                   {"large_allocations", row.calls},
                   {"large_bytes", row.large},
                   {"planned_bytes", row.planned},
                   {"at_hand_bytes", row.at_hand},
                   {"other_bytes", row.other},
                   {"page_faults_avoided", row.faults_avoided},
                   {"slab_bytes", row.slab},
                   {"peak_bytes", row.peak}});
  }
  return all;
}

}  // namespace memo::cli
