// Fuzzes the CSV reader, and the default planner on what it accepts. Built by tests/fuzz/run.sh
// with libFuzzer where clang has it.
//
// Whatever the text: either a message of the form `name:line: reason`, or a table that is well
// formed, reads back the same from what is written of it, and whose plan the validator accepts.
#include <cstdint>
#include <string_view>

#include "dsa/csv.h"
#include "dsa/planner.h"
#include "dsa/validate.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const dsa::CsvResult result = dsa::parse_csv(text, "f");
  require(result.table.has_value() != (result.error.starts_with("f:") && result.error.size() > 4));
  require_of_seed(result.table.has_value());
  if (!result.table) {
    return 0;
  }
  const dsa::Problem& problem = result.table->problem;
  require(static_cast<bool>(dsa::validate(problem)));
  const std::string written = dsa::format_csv(*result.table, nullptr);
  const dsa::CsvResult again = dsa::parse_csv(written, "f");
  require(again.table && dsa::format_csv(*again.table, nullptr) == written);
  const dsa::Outcome outcome = dsa::plan(problem, {.seconds = 0.002});
  require(!outcome.plan || static_cast<bool>(dsa::validate(problem, *outcome.plan)));
  return 0;
}
