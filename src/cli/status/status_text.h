// What `memomalloc status` says of running processes on a terminal, from the statistics of
// src/cli/status/status_pages.h. Cold.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace memo::cli {

// A table with a line for each process, and one for the sum of those that run.
std::string status_table(const std::vector<nlohmann::json>& processes);

// All about one process.
std::string status_details(const nlohmann::json& process);

}  // namespace memo::cli
