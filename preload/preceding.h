// An allocator that stands before this library in the link chain. Cold.
#pragma once

namespace memo {

enum class Before {
  // What the program frees comes here; or the library was loaded late, and is asked by its handle.
  kNothing,
  // Another malloc takes what is freed, or hands it past this library: a block of ours would be
  // lost.
  kAllocator,
  kCopy,  // another copy of this library, which serves
};

// Looks once, at start, when the underlying allocator is known and no block of ours is out. Where
// malloc's names are not bound to this library, it asks for a small block as any object of the
// process does, and sees whether it is asked to resize and to free it. Fills g_process.preceding.
// Takes a lock of the dynamic linker.
Before find_preceding();

}  // namespace memo
