// `memomalloc options`: the table of variables, from the table that the library reads them by.
// Cold.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/run/option_flags.h"

namespace memo::cli {
namespace {

nlohmann::json as_json(const OptionRow& row) {
  return {{"variable", "MEMOMALLOC_" + std::string(row.name)},
          {"option", flag_of(row.name)},
          {"default", row.initial},
          {"unit", row.unit},
          {"help", row.help}};
}

void print_row(const OptionRow& row) {
  const std::string variable = "MEMOMALLOC_" + std::string(row.name);
  const char* now = std::getenv(variable.c_str());
  const std::string initial = row.initial + (row.unit == "ms" ? " ms" : "");
  std::printf("%-23s %-10s %s%s%s\n", variable.c_str(), initial.c_str(),
              std::string(row.help).c_str(), now != nullptr ? "; set now: " : "",
              now != nullptr ? now : "");
}

}  // namespace

int options(int argc, char** argv) {
  bool json = false;
  CLI::App app(
      "Lists the settings: the MEMOMALLOC_ variables that the library reads, and their defaults.");
  if (auto code = parse_listing(app, argc, argv, json)) {
    return *code;
  }
  if (json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const OptionRow& row : option_rows()) {
      rows.push_back(as_json(row));
    }
    std::printf("%s\n", rows.dump(2).c_str());
    return kDone;
  }
  std::printf("%-23s %-10s %s\n", "variable", "default", "meaning");
  for (const OptionRow& row : option_rows()) {
    print_row(row);
  }
  std::puts(
      "\nPaths expand %p (process id) and %h (host name). `memomalloc run` takes each as an "
      "option:\n"
      "MEMOMALLOC_STATS_FILE=x is --stats-file x.");
  return kDone;
}

}  // namespace memo::cli
