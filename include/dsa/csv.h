// Problems and plans as CSV in MiniMalloc's dialect: a header that names the columns
// `id,lower,upper, size` and optionally `alignment`, `gaps` and `offset`, in any order, and a row
// for each buffer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsa/problem.h"

namespace dsa {

struct CsvTable {
  Problem problem;  // the column `offset`, where it is not empty, fixes a buffer's offset
  std::vector<std::string> ids;  // by buffer, unique, as written in the file
};

struct CsvResult {
  std::optional<CsvTable> table;
  std::string error;  // "name:line: reason" if there is no table
};

// Reads a whole file's text. `name` is only for the error. Windows line ends, blank lines at the
// end and spaces round a field are accepted; gaps are written `a-b` and parted by spaces. Each row
// is checked as `validate(problem)` does, and every id must be unique.
CsvResult parse_csv(std::string_view text, std::string_view name);

// Writes the table, with the plan's offsets if there is a plan (of the same buffers), else with the
// fixed ones; columns that say nothing (alignment 1, no gaps, no offsets) are left out.
std::string format_csv(const CsvTable& table, const Plan* plan);

}  // namespace dsa
