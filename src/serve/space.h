// Spaces: the parts of one reserved region of addresses in which slabs and arenas lie. Hot.
//
//   region  | the pool's arenas, a space each | slabs, a space each | ...
//   space   | committed: readable, writable | reserved: no access |
//
// One range check tells whether a pointer is ours, one shift tells whose. Address space is reserved
// once, at the first large allocation; memory is committed in steps as it is needed, so that
// neither a limit on data nor strict overcommit nor a program that locks its memory counts more
// than is used. The records of a space lie apart from its blocks, each array between two pages that
// nobody can read or write.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "src/base/lock_all.h"
#include "src/base/os.h"
#include "src/base/units.h"
#include "src/serve/free_index.h"
#include "src/serve/page_map.h"
#include "src/trace/live_table.h"

namespace memo {

constexpr Granules kHugePage = granules_in(os::kHugePage);

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

  // Gives the memory of free granules back to the system and marks them as clean. What the system
  // refuses to take, such as pages that the program has locked, stays. How many granules had memory
  // and lost it. Not while another thread may claim them.
  Granules give_back(Granules first, Granules count);
  // The system may take the memory of free granules of [from, end) when it needs some; until then
  // it is there. Looks at kMaxGivenBack; where that ends, or kNone: nothing of it is left. Not
  // while another thread may claim them.
  static constexpr Granules kNone = Granules::max();
  Granules free_lazily(Granules from, Granules end) const;

  // Children forked from now on have zeros where this is free, and no page is copied when the
  // process writes there. False where that would save nothing. Not while another thread may claim.
  bool wipe_free_on_fork();
  // They get a copy of that again. Before anything is claimed: a child would lack it.
  void copy_on_fork();

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
  bool give_back_whole(Granules first, Granules count, Granules& given);
  void unlock() const;

  char* base_ = nullptr;
  char* records_ = nullptr;
  std::uint16_t* notes_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::atomic<std::uint64_t> end_{UINT64_MAX};  // bytes that may be committed
  std::atomic<std::uint64_t> committed_{0};
  const Space* first_neighbour_ = this;
  std::uint64_t neighbours_ = 1;
  os::Numa nodes_ = os::Numa::kOff;
  bool sparing_ = false;
  bool bare_ = false;
  bool indexed_ = false;
  Granules wiped_until_;  // before it children may have zeros where it was free; 0: nowhere
};

// No block is in use. Any thread, since it looks at nothing but the states: it may not last.
inline bool is_empty(const Space& space) {
  const Granules top = granules_in(space.committed_bytes());
  return space.pages.tail(PageMap::Tail::kFree, Granules{0}, top) == Granules{0};
}

// One reservation of addresses, cut into spaces of equal size.
class Region {
 public:
  constexpr Region() = default;

  // Reserves `count` spaces, the first `pools` of them for arenas, of `most` bytes each (a power of
  // two), or of less, down to `least`, where addresses are scarce, and makes them in `spaces`,
  // memory that outlives this; false, and nothing is taken, if the system refuses. `bare`: as
  // Space::open(). Once.
  bool reserve(Space* spaces, std::uint64_t pools, std::uint64_t count, std::uint64_t most,
               std::uint64_t least, bool bare);
  // From now on addresses are owned, and others see what was written before.
  void publish();

  [[nodiscard]] bool opened() const { return base_.load(std::memory_order_acquire) != kNowhere; }
  [[nodiscard]] bool owns(const void* pointer) const {
    // The size is published last and read first: while it is zero, nothing is owned.
    const std::uint64_t bytes = bytes_.load(std::memory_order_acquire);
    return offset_of(pointer) < bytes;
  }
  // Lowest address; UINT64_MAX before publish().
  [[nodiscard]] std::uint64_t base() const { return base_.load(std::memory_order_relaxed); }
  // Lowest address of the spaces' tables, Space::record_bytes() of each.
  [[nodiscard]] char* tables() const { return tables_; }
  // All that is reserved: of the spaces, and of their tables. Once opened.
  [[nodiscard]] std::array<os::Reserved, 2> reserved() const;
  // True if a block of `bytes` (at least 1) may fit into a space.
  [[nodiscard]] bool fits(std::uint64_t bytes) const { return bytes >> shift_ == 0; }

  // The number of the space that the pointer, which is owned, lies in.
  [[nodiscard]] std::uint32_t number_of(const void* pointer) const {
    return static_cast<std::uint32_t>(offset_of(pointer) >> shift_);
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // What of [start, start + bytes) lies in the region.
  [[nodiscard]] os::Reserved part_of(const void* start, std::uint64_t bytes) const {
    const std::uint64_t all = bytes_.load(std::memory_order_acquire);
    const auto from = reinterpret_cast<std::uint64_t>(start);
    const std::uint64_t first = std::max(from, base());
    const std::uint64_t end = std::min(from + std::min(bytes, UINT64_MAX - from), base() + all);
    return first < end && all != 0 ? os::Reserved{first, end - first} : os::Reserved{};
  }
  [[nodiscard]] Space& at(std::uint64_t number) const { return spaces_[number]; }

 private:
  static constexpr std::uint64_t kNowhere = UINT64_MAX;
  [[nodiscard]] std::uint64_t offset_of(const void* pointer) const {
    return reinterpret_cast<std::uint64_t>(pointer) - base();
  }

  std::atomic<std::uint64_t> base_{kNowhere};
  std::atomic<std::uint64_t> bytes_{0};
  std::uint32_t shift_ = 0;  // log2 of a space's bytes
  Space* spaces_ = nullptr;
  char* tables_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace memo
