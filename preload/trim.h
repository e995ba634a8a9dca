// Has the underlying allocator release what it keeps. Cold; any thread.
#pragma once

namespace memo {

// Takes all of the underlying allocator's locks, whether the process has threads or not, and goes through its whole heap.
// Nothing where it has no malloc_trim.
void trim_next();

}  // namespace memo
