// What `compare` keeps of its runs, and how it shows them. Cold.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/cli/base/process.h"
#include "src/cli/report/answer.h"
#include "src/cli/run/allocators.h"

namespace memo::cli {

// One run of the command under one allocator.
struct Sample {
  Usage usage;
  std::map<std::string, double>
      reported;  // the numbers of the last JSON line that the command printed
};

struct Contestant {
  Allocator allocator;
  std::vector<Sample> samples;  // of the runs that ended with exit code 0
  int failures = 0;
  int last_failure = 0;  // its exit code
};

// Order statistics of a quantity over the runs, the p99 by nearest rank; all 0 if there are no
// values.
struct Spread {
  double median = 0;
  double p99 = 0;
  double least = 0;
  double most = 0;
};
Spread spread(std::vector<double> values);

// The numbers at the top level of the last line of `output` that is a JSON object; empty if none
// is.
std::map<std::string, double> last_json_numbers(std::string_view output);

inline constexpr std::size_t kEnoughRuns = 4;

// What the runs say of our library against glibc, and what to do next; a sentence each. Both empty
// unless both have runs that ended well. Of fewer than kEnoughRuns nothing is claimed.
Answer answer_of(const std::vector<Contestant>& contestants,
                 const std::vector<std::string>& command);

// Fixed-width table: a row for each contestant, the median and in brackets the least and the most.
std::string as_table(const std::vector<Contestant>& contestants);
nlohmann::json as_json(const std::vector<Contestant>& contestants,
                       const std::vector<std::string>& command);
// The same as a page that opens offline; on top what was won and what to do next.
std::string as_page(const std::vector<Contestant>& contestants,
                    const std::vector<std::string>& command);
// A line for each run: allocator, run, quantity columns.
std::string as_csv(const std::vector<Contestant>& contestants);

}  // namespace memo::cli
