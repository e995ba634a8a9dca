// The process' mappings, as /proc/self/maps tells. Hot, but for rare decisions: a line each.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "src/base/proc_file.h"

namespace memo::os {

struct Mapping {
  std::uint64_t start = 0;  // address
  std::uint64_t bytes = 0;
  bool has_access = false;
};

// A line of the process' maps, "start-end access ... name"; false where it is none.
inline bool parse(std::string_view line, Mapping& mapping) {
  const char* const first = line.begin();
  const char* const stop = line.end();
  std::uint64_t end = 0;
  const auto [dash, bad] = std::from_chars(first, stop, mapping.start, 16);
  if (bad != std::errc{} || dash == stop) {
    return false;
  }
  const auto [space, worse] = std::from_chars(dash + 1, stop, end, 16);
  if (worse != std::errc{} || space == stop) {
    return false;
  }
  mapping.bytes = end - mapping.start;
  mapping.has_access = !std::string_view(space + 1, stop).starts_with("---");
  return true;
}

// Calls `visit(mapping)` for each of the process until it answers false. False where it did, or
// where none could be read.
template <typename Visit>
bool each_mapping(Visit&& visit) {
  bool any = false;
  LinesOf<128> maps("/proc/self/maps");
  Mapping mapping;
  for (std::string_view line; maps.next(line); any = true) {
    if (!parse(line, mapping) || !visit(mapping)) {
      return false;
    }
  }
  return any;
}

}  // namespace memo::os
