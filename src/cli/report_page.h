// Puts a report together: one HTML file that needs no network and no server. Cold.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/report_exports.h"
#include "src/cli/report_model.h"

namespace memo::cli {

struct Report {
  std::string title;
  std::vector<ThreadMap> maps;
  nlohmann::json statistics;  // null where there are none
  SiteName site_name;
};

std::string report_html(const Report& report);

}  // namespace memo::cli
