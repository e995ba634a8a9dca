// The figures of the process at one moment, as all reports and the C API tell them. Cold.
#pragma once

#include "src/io/export.h"

namespace memo {

// Adds the state of the process now to an empty snapshot. Opens a file. Any thread.
void take(Snapshot& now);

}  // namespace memo
