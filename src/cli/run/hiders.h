// What keeps a program's large allocations from us, and the settings that show them. Cold.
#pragma once

#include "src/cli/base/process.h"

namespace memo::cli {

struct Hider {
  const char* file;     // a part of the file's name
  const char* what;     // it hides
  const char* advice;   // what to do
  const char* setting;  // NAME=VALUE, or ""
};

inline constexpr const char* kSecondAllocator =
    "it serves what is below the threshold; blocks asked for by names of its own (mallocx, "
    "mi_malloc, ...) are not seen";

inline constexpr Hider kHiders[] = {
#define HIDER(file, what, advice, setting) {file, what, advice, setting},
#include "src/cli/run/hiders.def"
#undef HIDER
};

// True if the hider has a setting, and this process' environment has it.
bool is_open(const Hider& hider);

// The settings of all hiders, but for variables that this process' environment has.
Environment opening_environment();

}  // namespace memo::cli
