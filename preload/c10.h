// torch's own two functions for tensors, c10::alloc_cpu and c10::free_cpu. Hot.
//
// torch's wheels for AArch64 hold mimalloc, so that tensors never reach malloc; but they call these
// two through the dynamic linker. Each block of such a library (hidden) that is large is asked of
// the engine first. A c10 that goes through malloc anyway is called as it is: its blocks are seen
// there.
#pragma once

#include <cstddef>

namespace memo {

// What the two entry points do; `caller`: their return address. Exceptions of the original pass.
void* c10_alloc(std::size_t size, const void* caller);
void c10_free(void* pointer, const void* caller);

}  // namespace memo
