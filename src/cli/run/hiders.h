// What keeps a program's large allocations from us, and the settings that show them. Cold.
#pragma once

#include <string>

namespace memo::cli {

struct Hider {
  const char* name;     // of its opening (opening.h), or ""
  const char* file;     // a pattern for the file's name, or with a `/` for its path
  const char* defines;  // a function that it must define, or ""
  const char* what;     // it hides
  const char* advice;   // what to do
  const char* setting;  // NAME=VALUE, or ""
  // What opens it: the user, `memomalloc run`, Python's start hook; kPool: nothing.
  enum Kind { kHand, kVariable, kHook, kPool } kind;
};

inline constexpr const char* kSecondAllocator =
    "it serves what is below the threshold; blocks asked for by names of its own (mallocx, "
    "mi_malloc, ...) are not seen";
inline constexpr const char* kNoSetting = "nothing to do: it has no setting";

inline constexpr Hider kHiders[] = {
#define HIDER(name, file, defines, what, advice, setting, kind) \
  {name, file, defines, what, advice, setting, Hider::kind},
#include "src/cli/run/hiders.def"
#undef HIDER
};

struct Setting {
  std::string name;
  std::string value;
};

// Of a hider that has one.
Setting setting_of(const Hider& hider);

// True if the object at `path` is one of the hider's.
bool is_from(const Hider& hider, const std::string& path);

// True if the hider has a setting, and this process' environment has it.
bool is_open(const Hider& hider);

}  // namespace memo::cli
