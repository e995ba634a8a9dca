// The pool: the arenas of all threads, from which every block comes that no plan places. Hot.
//
// The threads use one arena as long as they do not get in each other's way: what a thread has freed
// serves the next that asks, so the peak is the process' own. A thread that often finds its arena's
// lock held goes on to the next arena. What they hold counts together, and what is kept of it
// (src/serve/held_memory.h): an arena gives back what another has taken. Frees take no lock at all.
// Source: PRMalloc, 2.1 (a pool of tensor memory shared by the threads of a data-flow graph).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "src/base/lock.h"
#include "src/base/tuning.h"
#include "src/serve/arena.h"

namespace memo {

class Pool {
 public:
  // An arena, and the lock under which blocks are taken from it.
  struct alignas(64) Part {
    Lock* lock = nullptr;
    Arena arena;
  };
  // At most as many arenas as can be of use at once.
  static std::uint32_t useful_parts();

  // An arena for each of `parts`, in a space each from `spaces` on, which lie side by side; both
  // outlive this. Before the first block.
  void open(std::span<Part> parts, Space* spaces, bool huge_pages);

  // What a cgroup leaves for the pool and for the slabs.
  [[nodiscard]] const Headroom& headroom() const { return books_.headroom; }

  // What comes in huge pages before it is written, here and in the slabs. Any thread.
  [[nodiscard]] AheadWindow& ahead() { return books_.ahead; }
  // Of it what the arenas have given back leaves room for a slab. For callers of malloc, seldom.
  void look_ahead();

  // A block for lane `owner`; none where there is no memory, or others hold the lock for long. Any
  // thread.
  Arena::Block allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint16_t owner);
  // As the arena's. Any thread.
  std::optional<std::uint64_t> resize(void* start, std::uint64_t bytes);
  // A large block is freed while nothing is known of its stream: true if it is one of the process'
  // first, and the first of its size or of `always` bytes. Later ones are no start any more, and a
  // size that comes again may be a loop's: their memory would only be taken anew. Any thread.
  bool may_return_early(std::uint64_t bytes, std::uint64_t always) {
    for (std::atomic<std::uint64_t>& early : early_) {
      std::uint64_t size = early.load(std::memory_order_relaxed);
      if (size == 0 && early.compare_exchange_strong(size, bytes, std::memory_order_relaxed)) {
        return true;
      }
      if (size == bytes && bytes < always) {
        return false;
      }
    }
    return false;
  }
  // A recorded program is played again, whose blocks nobody writes: all of them count as written,
  // and nobody looks.
  void take_as_written() { books_.looks = false; }
  [[nodiscard]] bool looks() const { return books_.looks; }
  // Releases the block that starts at `start`; false if none does. `spare`: it is worth keeping for
  // the next one alone. Takes no lock. Any thread.
  bool free(void* start, bool at_once, bool spare = false) {
    return torn_ || part_of(start).arena.free(start, at_once, spare);
  }
  // One that has no memory any more, as carry() says, or whose pages are not what the program has
  // written: they go back, and tell nothing of others.
  bool free_bare(void* start) { return torn_ || part_of(start).arena.free_bare(start); }
  // The lane of the block that starts at `start`.
  [[nodiscard]] std::uint16_t owner(const void* start) const {
    const Space& space = space_of(start);
    return space.note(space.granule_of(start)).load(std::memory_order_relaxed);
  }

  // Forgets the past peak, or `less` bytes of it, and gives back memory that no block uses and the
  // rest of the peak does not keep, up to `bytes` of it; the bytes given back. For callers of
  // malloc, who tell how much.
  std::uint64_t trim(std::uint64_t bytes, std::uint64_t less = Arena::kAll);
  // A slab of `height` bytes has blocks from now on that the pool had, whose memory goes: the past
  // peak is forgotten, and what it kept given back, as far as a call may. Beside a slab that is
  // little, such as an inner loop's, what the loops around it will need again stays. Bytes given
  // back.
  std::uint64_t make_way(std::uint64_t height) {
    const bool little = height < books_.held.dirty_bytes() / tuning::kSmallPart;
    return trim(height + tuning::kMaxGivenBack, little ? height : Arena::kAll);
  }
  // Lets the peak follow what was alive since the last two calls: the past is forgotten, and up to
  // `bytes` of its memory given back; how much.
  std::uint64_t age(std::uint64_t bytes) { return trim_arenas(books_.held.age(), bytes); }
  // All of it, in portions between which others have the lock: on request, and for a thread that
  // has the time.
  std::uint64_t trim() {
    const std::uint64_t first = trim(tuning::kMaxGivenBack);
    return first + trim_rest();
  }
  // Gives back what trim(), age() and calls left to be given back.
  std::uint64_t trim_rest();
  // The system may take what is free when it needs some; until then it is there. In portions,
  // between which others have the locks.
  void free_lazily();
  // What is free of the `bytes` at `start`, in one of its spaces, is never given out: as the
  // arena's.
  void keep_out(const void* start, std::uint64_t bytes);
  // The program has asked for huge pages in [start, start + bytes): they end where
  // memory is given back.
  void note_huge(const void* start, std::uint64_t bytes) {
    const Granules first = space_of(start).granule_of(start);
    part_of(start).arena.huge_pages.raise(first + granules_of(bytes));
  }
  // What lasts in it comes in huge pages, some at a time. The background thread, without the locks.
  void collapse_long_lived();
  // Gives up the committed memory behind the last blocks, which trim() has given back; bytes.
  std::uint64_t retreat();
  void allow_slack(std::uint64_t divisor, bool loop = false) {
    books_.held.allow_slack(divisor, loop);
  }
  // The arenas' figures together. Any thread.
  [[nodiscard]] const HeldMemory& held() const { return books_.held; }
  // Copies the block at `from`, `bytes` long, to the one at `to`, which was allocated last. Where
  // that one raises the peak, and has hardly any memory yet, the two are never there as a whole: as
  // mremap() spares the system's malloc. Else the loop needs the memory at another point, and would
  // only have to get it again. True if `from` has none any more: it is to be freed as a bare one.
  // Any thread.
  bool carry(void* from, void* to, std::uint64_t bytes);
  // True if each arena is, and the books agree with them. A pool that was given up has no books to
  // agree. Looks at all of it; no other thread may be at work.
  [[nodiscard]] bool valid();

  // The arenas' spaces, side by side.
  [[nodiscard]] Space& space_of(const void* block) const { return spaces_[number_of(block)]; }
  [[nodiscard]] std::span<const Space> spaces() const { return {spaces_, parts_.size()}; }

  // Around fork(): the child must find the books whole. False, and none is held, where not all
  // locks are to be had.
  [[nodiscard]] bool lock_all(Lock::Patience patience);
  void unlock_all() { unlock_all(parts_.size()); }
  // As a space's, of all arenas. While no other thread may claim.
  bool wipe_free_on_fork();
  void copy_on_fork();
  // In a forked child: if a thread that does not exist there was at work on an arena, no block is
  // given out any more, and what is freed stays where it is.
  void after_fork();

 private:
  // The arena that the calling thread is to use, locked; nullptr where it is not to be had.
  Part* enter();
  // A block from an arena that has memory for it, the thread's own first; none if none has, or is
  // to be had at once.
  Arena::Block from_memory(std::uint64_t bytes, std::uint64_t alignment);
  [[nodiscard]] std::uint64_t number_of(const void* block) const {
    return static_cast<std::uint64_t>(static_cast<const char*>(block) - spaces_->base()) >> shift_;
  }
  [[nodiscard]] std::span<Part> used() {
    return parts_.first(used_.load(std::memory_order_acquire));
  }
  [[nodiscard]] Part& part_of(const void* block) { return parts_[number_of(block)]; }
  void unlock_all(std::size_t count);
  std::uint64_t trim_arenas(Granules granules, std::uint64_t bytes);
  template <typename Function>
  std::uint64_t each(std::uint32_t first, Function&& function);

  // The arenas' locks lie side by side: each page that a fork writes is copied.
  struct alignas(64) Gate {
    Lock lock;
  };
  Gate gates_[tuning::kMaxArenas];
  std::span<Part> parts_;
  std::atomic<std::uint32_t> used_{1};  // arenas that a thread has ever used
  Space* spaces_ = nullptr;
  int shift_ = 0;  // log2 of a space's bytes, rounded up where there is only one
  ArenaBooks books_;
  bool torn_ = false;
  // Bytes of the blocks for which may_return_early() was true; 0: none yet.
  std::atomic<std::uint64_t> early_[tuning::kMaxReturnedAtOnce] = {};
};

}  // namespace memo
