// One command of the `memomalloc` tool. Cold.
#pragma once

#include <string_view>

namespace memo::cli {

inline constexpr int kDone = 0;      // the command did what was asked
inline constexpr int kNo = 1;        // the question has the answer no
inline constexpr int kBadInput = 2;  // bad usage or input; said on stderr

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);  // argv[0] is the command's name; null: a group's title
  std::string_view summary;           // one line for --help
};

}  // namespace memo::cli
