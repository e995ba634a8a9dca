// Has the next allocator give back what it keeps. Cold; any thread.
#pragma once

namespace memo {

// Takes all of the next allocator's locks, whether the process has threads or not, and goes through
// its whole heap. Nothing where it has no malloc_trim.
void trim_next();

}  // namespace memo
