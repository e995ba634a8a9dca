// The page of `compare --html`: a headline, what to do next, and a table whose cells have bars. It
// needs neither a script nor a network, and follows the reader's choice of light or dark. Cold.
#include "src/cli/compare/comparison_page.h"

#include <algorithm>
#include <cstdio>

#include "src/cli/report/report_assets.h"

namespace memo::cli {
namespace {

constexpr double kBar = 100;  // units that the longest bar with its whisker takes

std::string units(double value, double most) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", most > 0 ? value / most * kBar : 0.0);
  return text;
}

// The figure, below it its range in brackets, and the bar.
std::string drawn(const PageCell& cell, double most) {
  const std::size_t range = cell.text.find(" (");
  return escaped(cell.text.substr(0, range)) +
         (range == std::string::npos ? ""
                                     : "<small>" + escaped(cell.text.substr(range)) + "</small>") +
         R"(<svg viewBox="0 0 100 8" preserveAspectRatio="none"><rect class="bar" y="1" height="6" width=")" +
         units(cell.median, most) + R"("/><path class="range" d="M)" + units(cell.least, most) +
         " 4H" + units(cell.most, most) + R"("/></svg>)";
}

}  // namespace

std::string comparison_page(const std::string& command, const std::string& headline,
                            const std::string& next, const std::vector<PageRow>& rows,
                            const std::vector<PageColumn>& columns) {
  std::string page = html_head("memomalloc compare", "comparison.css") + "<body>\n";
  page += "<h1>" + escaped(headline) + "</h1>\n<p class=\"next\">" + escaped(next) +
          "</p>\n<p class=\"soft\"><code>" + escaped(command) +
          "</code></p>\n<table>\n<tr><th>allocator</th>";
  std::vector<double> most;
  for (const PageColumn& column : columns) {
    page += "<th>" + escaped(column.heading) + "</th>";
    double greatest = 0;
    for (const std::optional<PageCell>& cell : column.cells) {
      greatest = std::max(greatest, cell ? cell->most : 0);
    }
    most.push_back(greatest);
  }
  page += "</tr>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    page += std::string("<tr") + (rows[i].ours ? " class=\"ours\"" : "") + "><td>" +
            escaped(rows[i].name) + "<span class=\"soft\">" + escaped(rows[i].note) +
            "</span></td>";
    for (std::size_t j = 0; j < columns.size(); ++j) {
      const std::optional<PageCell>& cell = columns[j].cells[i];
      page += "<td data-label=\"" + escaped(columns[j].heading) + "\">" +
              (cell ? drawn(*cell, most[j]) : "-") + "</td>";
    }
    page += "</tr>\n";
  }
  page +=
      "</table>\n<p class=\"soft\">Medians; in brackets, and as the thin line, the least "
      "and "
      "the most over the runs; peak RSS is the largest process'.</p>\n</body>\n</html>\n";
  return page;
}

}  // namespace memo::cli
