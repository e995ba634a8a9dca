// Invariants as code. Hot: a comparison; a broken one ends in fail(), one line and abort(), without
// an allocation.
//
// MEMO_CHECK is compiled into every build. It is only for what would otherwise let two blocks share
// memory. MEMO_DCHECK runs where MEMO_DEBUG is set and is for what a function relies on; elsewhere
// its condition is compiled, but not run. The Makefile sets MEMO_DEBUG in the modes debug, asan,
// ubsan, tsan and fuzz: the check runs all unit and property tests and the stress test in two. The
// prefix keeps them apart from the CHECK of the unit tests.
#pragma once

#include <string_view>

namespace memo {

// A broken invariant: one line, then abort(). Never returns. Defined in message.cc.
[[noreturn]] void fail(std::string_view reason);

}  // namespace memo

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
