// What `memomalloc status` says of running processes: tables for a terminal, and the lines that
// Prometheus reads. From the statistics of src/cli/status/status_pages.h. Cold.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace memo::cli {

// A table with a line for each process, and one for the sum of those that run.
std::string status_table(const std::vector<nlohmann::json>& processes);

// All about one process.
std::string status_details(const nlohmann::json& process);

// The counters and the amounts of those that run, in the format of OpenMetrics 1.0, which a
// collector of Prometheus' text format reads as well.
std::string status_metrics(const std::vector<nlohmann::json>& processes);

}  // namespace memo::cli
