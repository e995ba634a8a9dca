// The page of `compare --html`: a headline, what to do next, and a table whose cells have bars. It
// needs neither a script nor a network, and follows the reader's choice of light or dark. Cold.
#include "src/cli/comparison_page.h"

#include <algorithm>
#include <cstdio>

namespace memo::cli {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>memomalloc compare</title>
<style>
:root{color-scheme:light dark;--text:#1f2328;--soft:#59636e;--page:#fff;--line:#d1d9e0;--ours:#bc4c00;--theirs:#54aeff}
@media (prefers-color-scheme:dark){:root{--text:#f0f6fc;--soft:#9198a1;--page:#0d1117;--line:#3d444d;--ours:#f0883e;
--theirs:#1f6feb}}
body{font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--text);background:var(--page);
max-width:70em;margin:0 auto;padding:1em}
h1{font-size:1.4em;margin:.2em 0}code{font-size:.9em}.soft{color:var(--soft);font-size:.85em}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.4em .8em .4em 0;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
svg{display:block;width:9em;height:.7em;margin-top:.2em}.bar{fill:var(--theirs)}.ours .bar{fill:var(--ours)}
td .soft{display:block;min-width:11em;max-width:24em;white-space:normal;overflow-wrap:anywhere;font-weight:400}
.ours td:first-child{font-weight:600}.range{stroke:var(--text);stroke-width:1.2}
</style>
</head>
<body>
)";
constexpr double kBar = 100;  // units that the longest bar with its whisker takes

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string units(double value, double most) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", most > 0 ? value / most * kBar : 0.0);
  return text;
}

std::string drawn(const PageCell& cell, double most) {
  return escaped(cell.text) +
         R"(<svg viewBox="0 0 100 8" preserveAspectRatio="none"><rect class="bar" y="1" height="6" width=")" +
         units(cell.median, most) + R"("/><path class="range" d="M)" + units(cell.least, most) +
         " 4H" + units(cell.most, most) + R"("/></svg>)";
}

}  // namespace

std::string comparison_page(const std::string& command, const std::string& headline,
                            const std::string& next, const std::vector<PageRow>& rows,
                            const std::vector<PageColumn>& columns) {
  std::string page = kHead;
  page += "<h1>" + escaped(headline) + "</h1>\n<p>" + escaped(next) +
          "</p>\n<p class=\"soft\"><code>" + escaped(command) +
          "</code></p>\n<div class=\"wide\"><table>\n<tr><th>allocator</th>";
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
      page += "<td>" + (cell ? drawn(*cell, most[j]) : "-") + "</td>";
    }
    page += "</tr>\n";
  }
  page +=
      "</table></div>\n<p class=\"soft\">Medians; in brackets, and as the thin line, the least "
      "and "
      "the most over the runs.</p>\n</body>\n</html>\n";
  return page;
}

}  // namespace memo::cli
