// The processes of one command, by the statistics that each has left: which made large allocations,
// which does the work, and what the library did. Cold.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace memo::cli {

struct ProcessRow {
  std::int64_t pid = 0;
  std::int64_t parent = 0;
  std::string name;
  std::string phase;
  std::int64_t calls = 0;  // large allocations; all else in bytes, but for the faults
  std::int64_t large = 0;
  std::int64_t planned = 0;
  std::int64_t at_hand = 0;
  std::int64_t other = 0;
  std::int64_t faults_avoided = 0;  // at most
  std::int64_t slab = 0;
  std::int64_t peak = 0;
  // It is served, or has forked nobody that is: a server's first process makes large allocations
  // too, of what its workers then use.
  bool works = false;
  nlohmann::json statistics;  // all that the process has written
  [[nodiscard]] bool served() const { return planned + at_hand > 0; }
};

// A row for each process that made large allocations, the busiest first.
std::vector<ProcessRow> process_rows(const std::vector<nlohmann::json>& statistics);

// Their sum, as a row without a number; the peak is the greatest one.
ProcessRow sum_of(const std::vector<ProcessRow>& rows);

// A field that statistics may lack: 0 then.
std::int64_t number_in(const nlohmann::json& statistics, const char* name);
std::string text_in(const nlohmann::json& statistics, const char* name);

// "95 %" and "12.5 MiB".
std::string percent(std::int64_t part, std::int64_t whole);
std::string mebibytes(std::int64_t bytes);

// "python, process 123: serving; of 96 large MiB ..." without a line end.
std::string describe(const ProcessRow& row);

// A table with a line for each process and one for their sum; a sentence if there are none.
std::string as_table(const std::vector<ProcessRow>& rows);
nlohmann::json as_json(const std::vector<ProcessRow>& rows);

}  // namespace memo::cli
