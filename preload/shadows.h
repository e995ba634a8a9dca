// The shadows of MEMOMALLOC_OBSERVE (preload/observe.h): which block of the underlying allocator has which,
// and of some blocks the pages that got memory while the program had them. One lock, held for a look
// into the table. No allocation.
#pragma once

#include <cstdint>

namespace memo {

struct Observed {
  // That blocks had which would have been served, by those looked at.
  std::uint64_t page_faults = 0;
  std::uint64_t peak_bytes = 0;  // that the program held at once in large blocks
};

// Takes the memory for the table; false where the system refuses it. Once, before the first block.
bool open_shadows();
Observed observed();
// In a forked child: what the parent has seen is the parent's.
void forget_shadows();

// A large block of the underlying allocator, of `bytes`, has been given out; `shadow` is the engine's for
// the same call, or nullptr. `served`: the shadow would have had memory at once. The shadow of a
// block that was at this address and whose end was not seen, which the caller gives back; or
// nullptr. Any thread.
void* add_shadow(void* block, std::uint64_t bytes, void* shadow, bool served);
// The block is about to be freed, or to be moved: its shadow, which the caller gives back; nullptr:
// it has none.
void* take_shadow(void* block);

}  // namespace memo
