// `compare --html`: what was measured as one page that opens offline. Cold.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace memo::cli {

// A cell of the table: the text, and where its bar and the bar's whiskers end, in any unit of the
// column.
struct PageCell {
  std::string text;
  double median = 0;
  double least = 0;
  double most = 0;
};

// A quantity, with a cell for each row; none where no run had it.
struct PageColumn {
  std::string heading;
  std::vector<std::optional<PageCell>> cells;
};

struct PageRow {
  std::string name;
  std::string note;  // its settings
  bool ours = false;
};

// A whole document. `headline` says what was won, `next` what to do; both and all texts are plain.
std::string comparison_page(const std::string& command, const std::string& headline,
                            const std::string& next, const std::vector<PageRow>& rows,
                            const std::vector<PageColumn>& columns);

}  // namespace memo::cli
