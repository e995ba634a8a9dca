// What keeps a program's large allocations from us, and the settings that show them. Cold.
#pragma once

#include <string>

#include "src/cli/base/process.h"

namespace memo::cli {

struct Hider {
  const char* file;                     // a pattern for the file's name
  const char* defines;                  // a function that it must define, or ""
  const char* what;                     // it hides
  const char* advice;                   // what to do
  const char* setting;                  // NAME=VALUE, or ""
  enum Setter { kHand, kOpen } setter;  // the user, or `run --open`
};

inline constexpr const char* kSecondAllocator =
    "it serves what is below the threshold; blocks asked for by names of its own (mallocx, "
    "mi_malloc, ...) are not seen";

inline constexpr Hider kHiders[] = {
#define HIDER(file, defines, what, advice, setting, setter) \
  {file, defines, what, advice, setting, Hider::setter},
#include "src/cli/run/hiders.def"
#undef HIDER
};

// True if the object at `path` is one of the hider's.
bool is_from(const Hider& hider, const std::string& path);

// True if the hider has a setting, and this process' environment has it.
bool is_open(const Hider& hider);

// The settings that `run --open` makes, but for variables that this process' environment has.
Environment opening_environment();

}  // namespace memo::cli
