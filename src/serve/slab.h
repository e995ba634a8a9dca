// A slab: the memory from which one plan at a time is served. Hot. It knows heights, not plans, and
// its page map alone keeps two blocks apart, whatever a plan says.
//
//   space  | in use or free: [0, height) has memory | committed | reserved |
//
// A slab is the process', with addresses of its own for ever. One word tells which lane holds it,
// and for which plan (SlabWord). src/serve/slabs.h shares them out.
//
// Its memory comes where the program writes, at first in small pages and in huge ones that
// src/serve/ahead.h allows. After a whole iteration the slab is looked at: what was written as a
// whole comes in huge pages from then on (src/serve/written.h).
// Where only parts are written, those must stay the same, else what is free is given back.
//
// Its holder alone claims and changes the height; any thread frees. Checked by valid().
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/backoff.h"
#include "src/base/options.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/held_memory.h"
#include "src/serve/page_map.h"
#include "src/serve/pool.h"
#include "src/serve/space.h"

namespace memo {

// A slab's answer to a plan's offset: whether a block may lie there.
struct SlabPlace {
  enum class Answer : std::uint8_t { kGranted, kMisaligned, kOccupied };
  Answer answer = Answer::kOccupied;
  bool dirty = true;  // granted, and the place may hold old bytes
};

// Claims [offset, offset + bytes) of the slab that `pages` tells of, if it is free and at a border
// of `alignment` (bytes, a power of two; the slab begins at one). Requires an offset of whole
// granules.
inline SlabPlace claim_place(PageMap& pages, std::uint64_t offset, std::uint64_t bytes,
                             std::uint64_t alignment) {
  if (alignment > kGranule && (offset & (alignment - 1)) != 0) {
    return {SlabPlace::Answer::kMisaligned};
  }
  const PageMap::Claim claim = pages.claim(granules_in(offset), granules_of(bytes));
  return {claim.granted ? SlabPlace::Answer::kGranted : SlabPlace::Answer::kOccupied,
          claim.dirty != Granules{0}};
}

// What all slabs of a process have together.
struct SlabBooks {
  std::atomic<std::uint64_t> bytes{0};  // height of all slabs that have memory
  std::uint64_t limit = 0;              // bytes, for all of them
  Choice huge_pages = Choice::kAuto;
  std::uint64_t verbose = 0;
};

// Which lane holds a slab, and for which plan: one word, so that a look at it, in a forked child
// too, finds the old one or the new one.
//
//   | generation of the plan | lane | torn | free |
struct SlabWord {
  static constexpr std::uint64_t kFree = 1;  // `lane` is the last that held it
  static constexpr std::uint64_t kTorn = 2;  // free, and what held it was stopped in the middle
  static constexpr std::uint32_t kLaneBits = 16;
  static constexpr std::uint32_t kNoLane = (1U << kLaneBits) - 1;

  static constexpr std::uint64_t held(std::uint32_t lane, std::uint64_t plan) {
    return plan << (kLaneBits + 2) | std::uint64_t{lane} << 2;
  }
  // In place of a free `word`, so that nobody else takes the slab for a moment.
  static constexpr std::uint64_t nobodys(std::uint64_t word) { return held(kNoLane, plan(word)); }
  static constexpr bool is_free(std::uint64_t word) { return (word & kFree) != 0; }
  static constexpr std::uint32_t lane(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 2) % (1U << kLaneBits);
  }
  static constexpr std::uint64_t plan(std::uint64_t word) { return word >> (kLaneBits + 2); }
};

class Slab {
 public:
  // Ties the slab to its addresses; nobody holds it. Under a limit the pool's unused memory makes
  // room for it.
  void open(Space* space, SlabBooks* books, Pool* pool);

  // Its holder: a SlabWord. Any thread.
  [[nodiscard]] std::uint64_t word() const { return word_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_free() const { return SlabWord::is_free(word()); }
  // From `before` to `after`; false if it is not `before` any more. What was torn is whole then,
  // and has no memory.
  bool change(std::uint64_t before, std::uint64_t after);
  // By its holder: for another plan, or nobody holds it from now on.
  void hold(std::uint64_t word);
  void let_go(Nanos now);
  // In a forked child: its holder does not exist, and may have been in the middle of anything.
  void orphan();
  // Its holder has just taken it, or gone through its plan.
  void use(Nanos now) { used_at_.store(now, std::memory_order_relaxed); }
  // Not for so long. Any thread.
  [[nodiscard]] bool unused_for(Nanos time, Nanos now) const {
    return now >= used_at_.load(std::memory_order_relaxed) + time;
  }
  // Its holder is to be told of the deaths of its blocks. Any thread reads.
  void want_deaths(bool wanted) { wants_deaths_.store(wanted, std::memory_order_relaxed); }
  [[nodiscard]] bool wants_deaths() const { return wants_deaths_.load(std::memory_order_relaxed); }

  enum class Raised : std::uint8_t { kRefused, kEnough, kTaller, kTallest };
  // Takes addresses, and a part of the limit, for `height` bytes; memory comes when it is touched.
  // What learning left in the pool is given back first, so that the two never add up. `trial`: the
  // pool loses no more than the slab gets. kEnough: it had as much. kTallest: it has never been so
  // tall.
  Raised raise(std::uint64_t height, bool trial = false);
  // No more than `height` bytes are needed from now on.
  void trim(std::uint64_t height);
  // Now and then: what no plan of this window of time nor of the last has needed goes. For its
  // holder, or for a caller that keeps the holder out.
  void age(Nanos now);
  // Gives the memory back that no block uses; false if there was none.
  bool give_back();
  // The same, and its height is kept: the memory is to be had again when it is touched.
  void give_back_unused() const;
  // The system may take that memory when it needs some. A part from `from` on, as the space's.
  Granules free_lazily(Granules from) const {
    return space().free_lazily(from, granules_in(space().committed_bytes()));
  }
  // At the end of an iteration, which the next one's first call tells: it has claimed
  // [offset, offset + bytes), and nobody has written there yet.
  void sweep(std::uint64_t offset = 0, std::uint64_t bytes = 0) {
    if (ends_to_look_ != 0 || watched_ || attends_ != Attends::kNothing) [[unlikely]] {
      look({granules_in(origin_ + offset), granules_of(bytes)});
    }
  }
  // The same of any call while attentive() is true.
  [[nodiscard]] bool attentive() const { return attends_ != Attends::kNothing; }
  void attend(std::uint64_t offset, std::uint64_t bytes);
  // All of the slab was written when it was looked at last.
  [[nodiscard]] bool whole() const { return whole_; }
  // For a lane that has just taken the slab: the plan's places lie above all blocks that are in
  // use, since those may stay for good.
  void begin_above();
  // What is free of its space's [first, end) is given to nobody, and stays as it is: others have
  // the addresses now. For its holder, or for a caller that keeps the holder out.
  void keep_out(Granules first, Granules end) const;
  // Runs function() if nobody holds the slab, and nobody can meanwhile; false if somebody does.
  template <typename Function>
  bool while_free(Function&& function) {
    const std::uint64_t word = this->word();
    const std::uint64_t nobodys = SlabWord::nobodys(word);
    if (!SlabWord::is_free(word) || !change(word, nobodys)) {
      return false;
    }
    function();
    return change(nobodys, word & ~SlabWord::kTorn);
  }
  // A plan that is served from it needs so many bytes at least.
  void note_bound(std::uint64_t bytes);

  SlabPlace claim(std::uint64_t offset, std::uint64_t bytes, std::uint64_t alignment) {
    return claim_place(space_->pages, origin_ + offset, bytes, alignment);
  }
  [[nodiscard]] char* at(std::uint64_t offset) const { return space_->base() + origin_ + offset; }
  [[nodiscard]] Space& space() const { return *space_; }
  // Bytes of it that have memory for the plan, and the most that ever had.
  [[nodiscard]] std::uint64_t height() const { return height_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t tallest() const { return tallest_.load(std::memory_order_relaxed); }
  // The greatest bound of the plans that were served from it, bytes.
  [[nodiscard]] std::uint64_t bound() const { return bound_.load(std::memory_order_relaxed); }
  // True if heights and page map agree. No other thread may be at work.
  [[nodiscard]] bool valid() const;

 private:
  bool reserve(std::uint64_t height);
  void want(std::uint64_t height);
  void give_back_between(std::uint64_t from, std::uint64_t to) const;
  // src/serve/slab_huge_pages.cc
  [[nodiscard]] std::uint64_t huge_end(std::uint64_t height) const;
  [[nodiscard]] std::uint64_t memory_end(std::uint64_t height) const;
  void look(PageMap::Run claimed);
  void gather(char* from, char* to, PageMap::Run claimed);
  [[nodiscard]] bool is_free(Granules first, Granules end, PageMap::Run but) const;
  void make_huge(char* from, std::uint64_t bytes);
  void take_ahead(std::uint64_t offset, std::uint64_t bytes);
  void forget_huge(std::uint64_t from);
  void forget_look();
  [[nodiscard]] std::uint64_t there() const;
  static constexpr std::uint32_t kEndsToLook = 2;

  std::atomic<std::uint64_t> word_{SlabWord::held(SlabWord::kNoLane, 0) | SlabWord::kFree};
  Space* space_ = nullptr;
  SlabBooks* books_ = nullptr;
  Pool* pool_ = nullptr;
  std::atomic<Nanos> used_at_;
  std::atomic<bool> wants_deaths_{false};
  std::atomic<std::uint64_t> height_{0};
  std::atomic<std::uint64_t> tallest_{0};
  std::atomic<std::uint64_t> bound_{0};
  PeakOf raised_to_;          // heights that were asked for
  Granules wanted_;           // the last of these
  Nanos window_from_;         // the window began
  std::uint64_t origin_ = 0;  // bytes before the plan's places; 0 where there is no height
  // Ends of iterations until the slab is looked at: the first may be of a part of one.
  std::uint32_t ends_to_look_ = 0;
  // What is done with places that are claimed, since others were in use when the slab was looked
  // at. Before that look a large place of which hardly anything is there is emptied: an iteration
  // may be long, and write other parts each time.
  enum class Attends : std::uint8_t { kNothing, kEmpties, kGathers, kRenews };
  Attends attends_ = Attends::kNothing;
  bool whole_ = false;             // by the last look all of it is written
  bool watched_ = false;           // it is not, and what is written may be another part each time
  std::uint64_t written_ = 0;      // bytes that had memory then
  std::uint64_t gathered_ = 0;     // bytes from at(0) on that may be in huge pages
  std::uint64_t along_ = 0;        // bytes that have memory with those, and were not written
  std::uint64_t process_had_ = 0;  // bytes of memory, the least since then
  Backoff renewals_;               // iterations that renew until one does not
  Ahead ahead_;
  bool told_ = false;       // there was no memory for the height asked for last, and it was said
  bool room_made_ = false;  // for that height, in vain
};

}  // namespace memo
