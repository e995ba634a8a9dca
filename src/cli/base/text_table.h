// Tables of text for a terminal. Cold.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace memo::cli {

// Columns as wide as their widest cell, the first to the left, the others to the right. Each row
// has as many cells as the first.
inline std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + blanks : "  " + blanks + row[i];
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace memo::cli
