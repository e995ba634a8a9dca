// Invariants as code. Hot: a comparison; a broken one ends in fail(), one line and abort(), without
// an allocation.
//
// MEMO_CHECK is compiled into every build. It is only for what would otherwise let two blocks share
// memory. MEMO_DCHECK is compiled where MEMO_DEBUG is set (the debug, sanitizer and fuzzer builds)
// and is for what the comments state; elsewhere its condition is compiled, but not run. The prefix
// keeps them apart from the CHECK of the unit tests.
#pragma once

#include "src/base/message.h"

#define MEMO_TEXT_OF(value) #value
#define MEMO_LINE_TEXT(line) MEMO_TEXT_OF(line)
#define MEMO_CHECK(condition)         \
  ((condition) ? static_cast<void>(0) \
               : ::memo::fail(__FILE__ ":" MEMO_LINE_TEXT(__LINE__) ": broken: " #condition))

#ifdef MEMO_DEBUG
#define MEMO_DCHECK(condition) MEMO_CHECK(condition)
#else
#define MEMO_DCHECK(condition) (true ? static_cast<void>(0) : static_cast<void>(condition))
#endif
