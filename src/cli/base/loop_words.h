// What is said of a loop, in the words of src/engine/confidence.def, with its figures. Cold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/loop.h"

namespace memo::cli {

// `words` with the loop's figures in place of {loop}, {run} and {more}.
inline std::string with_figures(std::string_view words, const Loop& loop) {
  const auto calls = [](std::uint32_t count) {
    return std::to_string(count) + (count == 1 ? " call" : " calls");
  };
  const std::uint32_t needed = most_until_planned(loop.length);
  const std::pair<std::string_view, std::string> figures[] = {
      {"{loop}", calls(loop.length)},
      {"{run}", calls(loop.run)},
      {"{more}", std::to_string(needed > loop.run ? needed - loop.run : 0)}};
  std::string text(words);
  for (const auto& [name, figure] : figures) {
    if (const std::size_t at = text.find(name); at != std::string::npos) {
      text.replace(at, name.size(), figure);
    }
  }
  return text;
}

// "a loop of 5 calls has repeated for 290 calls: it is not believed yet; it is planned after at
// most 110 more".
inline std::string loop_words(std::string_view evidence, std::string_view verdict,
                              std::string_view next, const Loop& loop) {
  const std::string words = std::string(evidence) + ": " + std::string(verdict);
  return with_figures(next.empty() ? words : words + "; " + std::string(next), loop);
}

}  // namespace memo::cli
