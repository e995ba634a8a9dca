// The buffers of a planner's problem (dsa/csv.h), or of a plan, as the report's map. Cold.
#pragma once

#include <string>

#include "dsa/csv.h"
#include "src/cli/report/report_model.h"

namespace memo::cli {

// True if the file's first line names the columns of a problem.
bool begins_like_problem(const std::string& path);

// The map of the buffers, whose sites are their numbers in the table. Offsets that the file gives
// are kept; the others come from the planner. `error` says what is wrong with those that are given.
ThreadMap map_of(const dsa::CsvTable& table, const ModelOptions& options, std::string& error);

}  // namespace memo::cli
