// The MEMOMALLOC_ variables, read once. Hot: a constant-initialised struct of plain values.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/base/os.h"

namespace memo {

enum class Choice : std::uint8_t { kAuto, kAlways, kNever };
// Whose files are believed: the user's and root's, or also those of the user's groups.
enum class Trust : std::uint8_t { kOwner, kGroup };
using Numa = os::Numa;

namespace option {

// A copy, since a program may overwrite its environment. Longer values are refused as bad.
struct Text {
  char value[512] = "";
  constexpr Text(const char* initial) {  // NOLINT: rows give literals
    for (int i = 0; initial[i] != '\0'; ++i) {
      value[i] = initial[i];
    }
  }
  [[nodiscard]] bool empty() const { return value[0] == '\0'; }
  [[nodiscard]] std::string_view view() const { return value; }
};

using Size = std::uint64_t;
using Number = std::uint64_t;
using Flag = std::uint64_t;
using Path = Text;
using Choice = memo::Choice;
using Trust = memo::Trust;
using Numa = memo::Numa;

}  // namespace option

struct Options {
#define OPTION(type, name, initial, unit, help) option::type name = initial;
#include "src/base/options.def"
#undef OPTION
};

// Reads the variables of `environment` (as `environ`; may be null). A bad or unknown MEMOMALLOC_
// variable gets one line on stderr and the default; with MEMOMALLOC_STRICT=1 the process ends with
// exit code 2. `is_planner` tells which values of PLANNER are good; without it all are.
void read_options(char** environment, Options& options,
                  bool (*is_planner)(std::string_view) = nullptr);

// Expands %p (pid) and %h (host name) of a path; false if the result does not fit into `room`
// bytes.
bool expand_path(std::string_view path, char* result, std::uint64_t room);

// What stands behind the last slash of a path; all of it where there is none.
constexpr std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// True if the path has %p: each process has its own.
constexpr bool names_process(std::string_view path) {
  return path.find("%p") != std::string_view::npos;
}

// True if `names`, a `:` list, is empty or holds this process' name: its executable file's, behind
// all links, or the one that was executed, such as python3 or a script's.
bool runs_in(std::string_view names);

}  // namespace memo
