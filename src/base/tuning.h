// The thresholds of the library: the rows of tuning.def, as constants. Hot.
//
// In debug builds (MEMO_DEBUG) the TUNING rows are variables, which the environment may set before
// main(): MEMO_TUNE="kFit=16,kManyBytes=4". An unknown name, or a value that is no number of the
// row's type above 0, ends the process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/units.h"

namespace memo::tuning {

#define FIXED(type, name, value, unit, reason, noticed) inline constexpr type name{value};
#ifdef MEMO_DEBUG
#define TUNING(type, name, value, unit, reason, noticed) extern constinit type name;
#else
#define TUNING FIXED
#endif
#include "src/base/tuning.def"
#undef TUNING
#undef FIXED

#ifdef MEMO_DEBUG
// Sets what `text` names, "name=value,..."; false at the first part that is not as it should be,
// whose place in the text is `*wrong`. Before other threads and other calls.
bool set(const char* text, const char** wrong);
#endif

}  // namespace memo::tuning
