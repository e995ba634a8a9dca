// `memomalloc planners`: the registry as a table. Cold.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "dsa/planner.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"

namespace memo::cli {

int planners(int argc, char** argv) {
  bool json = false;
  CLI::App app(
      "Lists the planners that `memomalloc plan --planner` and MEMOMALLOC_PLANNER take.\n"
      "portfolio, the default, tries the others one after another; exact ones can prove that a\n"
      "plan is the best.");
  if (auto code = parse_listing(app, argc, argv, json)) {
    return *code;
  }
  if (json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const dsa::Planner& planner : dsa::planners()) {
      rows.push_back(
          {{"name", planner.name}, {"exact", planner.exact}, {"source", planner.source}});
    }
    std::printf("%s\n", rows.dump(2).c_str());
    return kDone;
  }
  std::printf("%-26s %-6s %s\n", "planner", "exact", "source");
  for (const dsa::Planner& planner : dsa::planners()) {
    std::printf("%-26.*s %-6s %.*s\n", static_cast<int>(planner.name.size()), planner.name.data(),
                planner.exact ? "yes" : "no", static_cast<int>(planner.source.size()),
                planner.source.data());
  }
  return kDone;
}

}  // namespace memo::cli
