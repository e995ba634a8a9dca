// Puts a report together: one HTML file that needs no network and no server. Cold.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/report/answer.h"
#include "src/cli/report/report_exports.h"
#include "src/cli/report/report_model.h"

namespace memo::cli {

struct Report {
  enum class Source : std::uint8_t { kTrace, kSnapshot, kProblem };

  std::string title;
  std::vector<std::string> notes;  // sentences about what was read
  Source source = Source::kTrace;  // of the maps
  std::vector<ThreadMap> maps;
  nlohmann::json statistics;  // null where there are none
  SiteName site_name;
};

// What the page says first.
Answer answer_of(const Report& report);

std::string report_html(const Report& report);

}  // namespace memo::cli
