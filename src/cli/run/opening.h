// Makes what frameworks keep in memory pools of their own visible to the library, where that
// changes no result: variables for the command, and Python's start hook
// (python/memomalloc/opening). Cold.
#pragma once

#include <string>
#include <string_view>

#include "src/cli/base/process.h"

namespace memo::cli {

// True if a value of MEMOMALLOC_OPEN has the opening of this name.
bool opens(std::string_view choice, std::string_view name);

// What this process' environment has as MEMOMALLOC_OPEN, "" if nothing.
std::string chosen_openings();

// Why `choice` is no value of MEMOMALLOC_OPEN; empty if it is one.
std::string check_openings(const std::string& choice);

// The variables that the command gets, but for those that this process' environment has.
// `preload`: the value of LD_PRELOAD that it gets.
// `cuda`: planned GPU memory, which comes by the start hook, was asked for.
Environment opening_environment(const std::string& choice, const std::string& preload,
                                bool cuda = false);

}  // namespace memo::cli
