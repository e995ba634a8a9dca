// What is said of a loop that is not planned yet. Cold.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/loop.h"

namespace memo::cli {

// "a loop of 5 calls has repeated for 290 calls, and is planned after at most 110 more"; "" where
// no loop was seen for at least two of its lengths.
inline std::string loop_words(const Loop& loop) {
  if (loop.length == 0 || loop.run < 2 * loop.length) {
    return "";
  }
  const std::uint32_t needed = most_until_planned(loop.length);
  const std::string calls = loop.length == 1 ? " call" : " calls";
  return "a loop of " + std::to_string(loop.length) + calls + " has repeated for " +
         std::to_string(loop.run) + " calls" +
         (needed > loop.run
              ? ", and is planned after at most " + std::to_string(needed - loop.run) + " more"
              : ", but some of its blocks do not live alike in each iteration");
}

}  // namespace memo::cli
