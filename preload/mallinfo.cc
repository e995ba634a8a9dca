// mallinfo() and mallinfo2(): blocks that this library serves are as the C library's mapped ones,
// each of which is mapped alone. Cold; any thread.
#include <algorithm>
#include <climits>

#include "preload/process.h"
#include "preload/shim.h"

namespace memo {
namespace {

struct Alive {
  std::size_t blocks = 0;
  std::size_t bytes = 0;
};

// Others may be at work: it is what was seen.
void add_alive(const Space& space, Alive& alive) {
  const Granules top = granules_in(space.committed_bytes());
  for (Granules at{0}; at < top;) {
    const Granules length = space.pages.length(at);
    alive.blocks += length != Granules{0} ? 1U : 0U;
    alive.bytes += bytes_of(length);
    at = length != Granules{0}
             ? at + length
             : std::max(space.pages.states().alike_until(at, top), at + Granules{1});
  }
}

Alive all_alive() {
  Alive alive;
  const Lanes& lanes = g_process.engine.lanes;
  if (lanes.opened() && !g_process.observes) {
    for (std::uint32_t space = 0; space < lanes.spaces(); ++space) {
      add_alive(lanes.region.at(space), alive);
    }
  }
  return alive;
}

}  // namespace

struct mallinfo2 shim::mallinfo2() {
  find_next_allocator();
  const auto next = g_process.next.mallinfo2;
  struct mallinfo2 told{};
  if (next != nullptr) {
    told = next();
  }
  const Alive alive = all_alive();
  told.hblks += alive.blocks;
  told.hblkhd += alive.bytes;
  return told;
}

struct mallinfo shim::mallinfo() {
  find_next_allocator();
  const auto next = g_process.next.mallinfo;
  struct mallinfo told{};
  if (next != nullptr) {
    told = next();
  }
  const Alive alive = all_alive();
  // As the C library's, which counts on in an int.
  told.hblks =
      static_cast<int>(static_cast<unsigned>(told.hblks) + static_cast<unsigned>(alive.blocks));
  told.hblkhd =
      static_cast<int>(static_cast<unsigned>(told.hblkhd) + static_cast<unsigned>(alive.bytes));
  return told;
}

}  // namespace memo
