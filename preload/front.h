// What stands before this library in the link chain. Cold.
#pragma once

namespace memo {

enum class Front {
  kNobody,  // what the program frees comes here; or the library was loaded late, for who asks it by its handle
  kAllocator,  // another malloc takes it, or hands it past this library: a block of ours would be lost on it
  kCopy,  // another copy of this library, which serves
};

// Looks once, at start, when the underlying allocator is known and no block of ours is out. Where malloc's names are not
// bound to this library, it asks for a small block as any object of the process does, and sees whether it is asked to
// resize and to free it. Sets g_process.front_realloc and front_free. Takes a lock of the dynamic linker.
Front who_is_in_front();

}  // namespace memo
