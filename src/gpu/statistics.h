// The figures of one device. Names follow torch.cuda.memory_stats where it has them. Cold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace memo::gpu {

struct Figure {
  std::uint64_t current = 0;
  std::uint64_t peak = 0;
  std::uint64_t allocated = 0;  // sum of all that was added
  std::uint64_t freed = 0;

  void add(std::uint64_t amount) {
    current += amount;
    allocated += amount;
    peak = std::max(peak, current);
  }
  void remove(std::uint64_t amount) {
    current -= amount;
    freed += amount;
  }
  void reset_peak() { peak = current; }
};

// One for all blocks, and of these the small and the large ones.
struct Pools {
  Figure all;
  Figure small;
  Figure large;
  void add(bool is_large, std::uint64_t amount) {
    all.add(amount);
    (is_large ? large : small).add(amount);
  }
  void remove(bool is_large, std::uint64_t amount) {
    all.remove(amount);
    (is_large ? large : small).remove(amount);
  }
  void reset_peak() {
    all.reset_peak();
    small.reset_peak();
    large.reset_peak();
  }
};

// Where blocks came from: all calls of kLarge and more, in calls and bytes.
struct Share {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  void add(std::uint64_t amount) {
    ++calls;
    bytes += amount;
  }
};

struct Figures {
  Pools allocation;       // blocks that tensors have
  Pools allocated_bytes;  // of these, whole borders of 512 bytes
  Pools requested_bytes;  // of these, as asked for
  Pools active;           // blocks that tensors have or other streams still use
  Pools active_bytes;
  Share planned;               // placed where the plan says
  Share reused;                // from memory that the pool held
  Share other;                 // for which memory was mapped
  std::uint64_t misses = 0;    // calls of a served plan that were none of its steps
  std::uint64_t occupied = 0;  // a step's place was not free
  std::uint64_t stolen = 0;    // chunks moved from one place to another
  std::uint64_t waits = 0;     // for streams, since there was no memory, or a slab was opened
  std::uint64_t refusals = 0;  // calls that ended in an out-of-memory error
};

}  // namespace memo::gpu
