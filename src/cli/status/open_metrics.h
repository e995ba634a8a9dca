// What Prometheus reads of running processes (`memomalloc status --openmetrics`), from the
// statistics of src/cli/status/status_pages.h. Cold.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace memo::cli {

// The counters and the amounts of those that run, in the format of OpenMetrics 1.0, which a
// collector of Prometheus' text format reads as well.
std::string open_metrics(const std::vector<nlohmann::json>& processes);

}  // namespace memo::cli
