// A code address as something that means the same in the next process: module and offset. Hot.
#pragma once

#include <cstdint>

namespace memo {

// Hash of the module's build id (of its file name where it has none) and the address' offset in it,
// equal in every process that loads the same file, wherever it is loaded. Looks up the dynamic
// linker's list once an address, then remembers it; any thread. Takes the lock of that list, as
// unwinding does, so no lock of ours may be held; not the lock that dlopen holds while constructors
// run, which may wait for threads that allocate.
std::uint64_t code_location(const void* address);

}  // namespace memo
