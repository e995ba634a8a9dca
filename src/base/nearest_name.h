// Which name a misspelt word may have meant. Allocates nothing: the library asks as it is loaded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace memo {

// The least number of letters to put in, to leave out, to change, or to exchange with their
// neighbour that makes one word the other; capitals count as small letters (optimal string
// alignment: none is touched twice). Source: Damerau, "A technique for computer detection and
// correction of spelling errors", 1964. Words longer than kMaxLetters are far from everything.
// O(letters^2).
class NearestName {
 public:
  static constexpr std::size_t kMaxLetters = 40;

  // `word` outlives this, and so do all names that are offered.
  explicit constexpr NearestName(std::string_view word) : word_(word) {}

  constexpr void offer(std::string_view name) {
    const std::size_t edits = edits_to(name);
    if (edits < least_) {
      least_ = edits;
      found_ = name;
    }
  }

  // Of the names offered the nearest, the first of equals. Empty if more than a third of the word's
  // letters would have to change: what clang and cargo take for another word.
  constexpr std::string_view found() const {
    return least_ <= most_edits() ? found_ : std::string_view();
  }

 private:
  constexpr std::size_t most_edits() const { return std::max<std::size_t>(word_.size() / 3, 1); }

  static constexpr bool same(char a, char b) {
    const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c + 0; };
    return small(a) == small(b);
  }

  constexpr std::size_t edits_to(std::string_view name) const {
    const std::size_t longer = std::max(word_.size(), name.size());
    // At least the difference in length.
    const std::size_t least = longer - std::min(word_.size(), name.size());
    if (longer > kMaxLetters || least > most_edits()) {
      return SIZE_MAX;
    }
    // rows[i % 3][j]: the edits that make the first i letters of the word the first j of the name.
    std::size_t rows[3][kMaxLetters + 1] = {};
    for (std::size_t i = 0; i <= word_.size(); ++i) {
      std::size_t* const row = rows[i % 3];
      const std::size_t* const above = rows[(i + 2) % 3];
      row[0] = i;
      for (std::size_t j = 1; j <= name.size(); ++j) {
        if (i == 0) {
          row[j] = j;
          continue;
        }
        row[j] = std::min({above[j] + 1, row[j - 1] + 1,
                           above[j - 1] + (same(word_[i - 1], name[j - 1]) ? 0 : 1)});
        if (i > 1 && j > 1 && same(word_[i - 1], name[j - 2]) && same(word_[i - 2], name[j - 1])) {
          row[j] = std::min(row[j], rows[(i + 1) % 3][j - 2] + 1);
        }
      }
    }
    return rows[word_.size() % 3][name.size()];
  }

  std::string_view word_;
  std::string_view found_;
  std::size_t least_ = SIZE_MAX;
};

}  // namespace memo
