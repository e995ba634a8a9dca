// The table of observed blocks (preload/observe.h): the stand-in of each, and of some the pages
// that got memory while the program had them. One lock, held for a look into the table. No
// allocation.
#pragma once

#include <cstdint>

namespace memo {

struct Observed {
  // That blocks had which would have been served, by those looked at.
  std::uint64_t page_faults = 0;
  std::uint64_t peak_bytes = 0;  // that the program held at once in large blocks
};

// Takes the memory for the table; false where the system refuses it. Once, before the first block.
bool open_observed_blocks();
Observed observed();

// A large block of the underlying allocator, of `bytes`, has been given out; `stand_in` is the
// engine's for the same call, or nullptr. `served`: it would have had memory at once. Returns a
// stand-in that the caller gives back, of a block at this address whose free was not seen; or
// nullptr. Any thread.
void* add_observed_block(void* block, std::uint64_t bytes, void* stand_in, bool served);
// The block is about to be freed, or to be moved. Returns its stand-in, which the caller gives
// back; nullptr: it has none.
void* take_observed_block(void* block);

}  // namespace memo
