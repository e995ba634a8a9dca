// A plan as the bytes of a file, and back. Cold; no system call. What is read is checked for being
// in bounds only; of a symbolic plan src/learn computes again all that must be right.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/io/saved_plan.h"

namespace memo {

// The whole file of at most `most` bytes; empty where the plan does not fit. Behind the plan comes
// `trailer`, which readers of plans pass over.
std::vector<char> format_plan(const SavedPlan& plan, std::uint64_t most,
                              std::span<const char> trailer = {});

// The plan of the whole file, of at most `most_height` bytes; false where it is damaged, foreign or
// of another version, and *problem says why. A parametric plan is one that memo::restore() still
// has to accept. May throw for want of memory.
bool parse_plan(std::span<const char> bytes, std::uint64_t most_height, LoadedPlan& plan,
                std::string_view* problem);

// True for what another version of the library has written in its format.
bool is_other_version(std::span<const char> bytes);

}  // namespace memo
