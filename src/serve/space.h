// Spaces: the parts of one reserved region of addresses in which slabs and arenas lie. Hot.
//
//   region  | space 0: the pool's arena | space 1: a slab | space 2: a slab | ...
//   space   | committed: readable, writable | reserved: no access |
//
// One range check tells whether a pointer is ours, one shift tells whose. Address space is reserved
// once, at the first large allocation; memory is committed in steps as it is needed, so that
// neither a limit on data nor strict overcommit nor a program that locks its memory counts more
// than is used. The records of a space lie apart from its blocks, each array between two pages that
// nobody can read or write.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/granule.h"
#include "src/base/os.h"
#include "src/serve/free_index.h"
#include "src/serve/page_map.h"
#include "src/trace/live_table.h"

namespace memo {

class Space {
 public:
  // Takes [base, base + bytes) of reserved addresses, and `records` (record_bytes(bytes), reserved
  // as well).
  // `bare`: nobody touches its blocks, and they get no memory.
  void open(char* base, char* records, std::uint64_t bytes, bool bare = false);
  static std::uint64_t record_bytes(std::uint64_t bytes);
  // All spaces of the reservation, this one among them: a program that locks its memory locks what
  // is reserved for them all. They outlive this.
  void join(const Space* first, std::uint64_t count) {
    first_neighbour_ = first;
    neighbours_ = count;
  }

  // From now on no more is made usable than what is asked for: the system counts it for every
  // process.
  void be_sparing() { sparing_ = true; }
  [[nodiscard]] bool sparing() const { return sparing_; }
  // On which memory nodes what is committed from now on lies.
  void place_on(os::Numa nodes) { nodes_ = nodes; }

  // Makes [0, bytes) usable; false where the limit or the system refuses. One granule more than
  // asked is always readable, since kernels read up to 128 bytes past the end of a tensor by design
  // (XNNPACK). Owner only.
  bool commit(std::uint64_t bytes);

  // From byte `end` on, or from what is usable, the addresses are the program's: commit() refuses
  // them. Any thread.
  void end_at(std::uint64_t end) {
    std::uint64_t before = end_.load(std::memory_order_relaxed);
    end = std::max(end, committed_bytes());
    while (end < before && !end_.compare_exchange_weak(before, end, std::memory_order_relaxed)) {
    }
  }
  // Takes back what commit() made usable from granule `first` on, where all must be free and clean;
  // the granule behind stays readable. Bytes that do not count any more. Owner only.
  std::uint64_t retreat(Granules first);
  // The same from where all is free and clean.
  std::uint64_t retreat() {
    return retreat(pages.tail(PageMap::Tail::kClean, Granules{0}, granules_in(committed_bytes())));
  }
  [[nodiscard]] std::uint64_t committed_bytes() const {
    return committed_.load(std::memory_order_relaxed);
  }

  // Gives the memory of free granules back to the system and marks them as clean; where the system
  // refuses some (pages that the program has locked), those stay. How many were given back. Not
  // while another thread may claim them.
  Granules give_back(Granules first, Granules count);

  // Opens an index of the free runs. Before the first block.
  void index(FreeIndex& index);

  [[nodiscard]] char* base() const { return base_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] char* address(Granules granule) const { return base_ + bytes_of(granule); }
  [[nodiscard]] Granules granule_of(const void* pointer) const {
    return granules_in(static_cast<std::uint64_t>(static_cast<const char*>(pointer) - base_));
  }
  // True if `pointer` may be a block of ours: on a granule's start and inside the committed part.
  [[nodiscard]] bool plausible(const void* pointer) const;

  // A number of the user's for the block that starts at `granule`.
  [[nodiscard]] std::atomic_ref<std::uint16_t> note(Granules granule) const {
    return std::atomic_ref(notes_[granule.count()]);
  }

  PageMap pages;
  LiveTable live;

 private:
  bool commit_until(std::uint64_t target, os::Lock lock);
  bool give_back_whole(Granules first, Granules count);
  void unlock() const;

  char* base_ = nullptr;
  char* records_ = nullptr;
  std::uint16_t* notes_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::atomic<std::uint64_t> end_{UINT64_MAX};  // bytes that may be committed
  std::atomic<std::uint64_t> committed_{0};
  const Space* first_neighbour_ = nullptr;
  std::uint64_t neighbours_ = 0;
  os::Numa nodes_ = os::Numa::kOff;
  bool sparing_ = false;
  bool bare_ = false;
  bool indexed_ = false;
};

// No block is in use. Any thread, since it looks at nothing but the states: it may not last.
inline bool is_empty(const Space& space) {
  const Granules top = granules_in(space.committed_bytes());
  return space.pages.tail(PageMap::Tail::kFree, Granules{0}, top) == Granules{0};
}

}  // namespace memo
