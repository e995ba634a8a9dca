// A range of device addresses, and what lies where in it: which parts are free, which have memory.
// Memory comes in chunks of one size, each mapped and unmapped as a whole.
//
//   free    |....bbbb......bb..........................   b: a block; claimed or allocated
//   chunks  |MMMMMMMMMMMMMMMMMM--------MMMM------------   M: has memory, -: has none
//   ready   |....    ......  ..        ....               free, and with memory: no driver call
//
// A block is only ever put where free() has the whole range: nothing above has to be right for two
// blocks to stay apart. Under the device's lock. Cold.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/gpu/clock.h"
#include "src/gpu/intervals.h"
#include "src/gpu/physical.h"

namespace memo::gpu {

class Zone {
 public:
  // For work on the clock's stream. Both outlive the zone. Without addresses every mapping is
  // refused.
  Zone(Physical& physical, Clock& clock, Interval addresses, std::uint64_t chunk_bytes);
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

  // The block [offset, offset + bytes), if all of it is free and has memory. No driver call.
  bool claim(std::uint64_t offset, std::uint64_t bytes);
  // The same where a part of it has no memory, which is still to be asked for: commit().
  bool claim_bare(std::uint64_t offset, std::uint64_t bytes);
  // The smallest free place that has memory, or none. No driver call.
  std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  // The free place that needs the fewest chunks more. Its memory is still to be asked for:
  // commit(). None where no addresses are left.
  std::optional<std::uint64_t> allocate_bare(std::uint64_t bytes);
  // The block is free again. Its memory is in use until the clock's present epoch is over.
  void release(std::uint64_t offset, std::uint64_t bytes);

  // The chunks of [offset, offset + bytes) that have no memory.
  [[nodiscard]] std::vector<std::uint32_t> missing(std::uint64_t offset, std::uint64_t bytes) const;
  // Gives memory to chunks `first`, `first + 1`, ... False where the driver refuses the mapping:
  // then the caller has the handles still.
  bool fill(std::uint32_t first, const std::vector<Handle>& handles);
  // Takes the memory of a chunk without blocks whose last use is over; 0: there is none. Chunks of
  // the smallest free ranges go first, since large ones are worth more.
  Handle take_idle();
  // Gives back the memory of the chunks without blocks, or of all. Only for when no work runs.
  void give_all(bool blocks);
  // Such chunks without blocks there are, whatever their last use.
  [[nodiscard]] bool has_idle() const;

  [[nodiscard]] Address base() const { return base_; }
  [[nodiscard]] std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  [[nodiscard]] std::uint64_t chunk_count() const { return chunks_.size(); }
  [[nodiscard]] bool empty() const;  // of blocks, and of memory
  [[nodiscard]] bool in_use(std::uint32_t chunk) const { return chunks_[chunk].blocks != 0; }
  [[nodiscard]] Clock& clock() { return clock_; }
  // Free and committed parts agree with each other and with the counts. O(n).
  [[nodiscard]] bool valid() const;

  bool pinned = false;  // take_idle() finds nothing: a graph replays here, or a plan is served

 private:
  struct Chunk {
    Handle handle = 0;
    std::uint32_t blocks = 0;  // that reach into it
    std::uint64_t epoch = 0;   // of the last release
  };

  void occupy(std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t count_missing(std::uint64_t offset, std::uint64_t bytes) const;
  Handle empty(std::uint32_t chunk);

  Physical& physical_;
  Clock& clock_;
  Address base_;
  std::uint64_t chunk_bytes_;
  std::uint64_t committed_ = 0;
  std::vector<Chunk> chunks_;  // up to the last one that ever had a block or memory
  Intervals free_;
  Intervals ready_;
};

}  // namespace memo::gpu
