// The figures of the process at one moment, as all reports and the C API tell them. Cold.
#pragma once

#include <cstdint>

#include "src/io/export.h"

namespace memo {

// The process' peak now, which costs opening a file; or as it was at most ten seconds ago.
enum class Peak : std::uint8_t { kNow, kOfLate };

// Adds the state of the process now to an empty snapshot. Any thread.
void take(Snapshot& now, Peak peak = Peak::kNow);

}  // namespace memo
