#include "src/serve/pool.h"

#include <algorithm>
#include <bit>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/os.h"

namespace memo {
namespace {

// A call that waits for its arena's lock counts as so many that do not.
constexpr unsigned kWeight = 8;

}  // namespace

std::uint32_t Pool::useful_parts() {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(os::processors(), tuning::kMaxArenas));
}

void Pool::open(std::span<Part> parts, Space* spaces, bool huge_pages) {
  parts_ = parts;
  spaces_ = spaces;
  shift_ = static_cast<int>(std::bit_width(spaces->bytes() - 1));
  MEMO_DCHECK(parts.size() <= tuning::kMaxArenas);
  MEMO_DCHECK(parts.size() == 1 || is_power_of_two(spaces->bytes()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].lock = &gates_[i].lock;
    parts[i].arena.open(spaces + i, &books_, huge_pages);
  }
  books_.headroom.open();
}

Pool::Part* Pool::enter() {
  if (torn_) {
    return nullptr;
  }
  ThreadState& thread = t_state;
  if (thread.arena >= parts_.size()) [[unlikely]] {
    thread.arena = 0;
  }
  const bool held = !parts_[thread.arena].lock->try_lock();
  if (!held) {
    thread.arena_waits = static_cast<std::uint8_t>(thread.arena_waits -
                                                   std::min<std::uint8_t>(thread.arena_waits, 1));
  } else if (!parts_[thread.arena].lock->held_by_me()) {
    thread.arena_waits = static_cast<std::uint8_t>(thread.arena_waits + kWeight);
    if (thread.arena_waits >= tuning::kMaxArenaWaits * kWeight) {
      thread.arena_waits = 0;
      thread.arena = static_cast<std::uint8_t>((thread.arena + 1U) % parts_.size());
    }
  }
  std::uint32_t used = used_.load(std::memory_order_relaxed);
  while (used <= thread.arena && !used_.compare_exchange_weak(used, thread.arena + 1U)) {
  }
  Part& part = parts_[thread.arena];
  return !held || part.lock->lock_within(Lock::Patience::kCall) ? &part : nullptr;
}

Arena::Block Pool::from_memory(std::uint64_t bytes, std::uint64_t alignment) {
  const std::span<Part> parts = used();
  for (std::size_t i = 0; i < parts.size() && !torn_; ++i) {
    Part& part = parts[(t_state.arena + i) % parts.size()];
    if (part.lock->try_lock()) {
      const Arena::Block block = part.arena.allocate(bytes, alignment, Arena::From::kMemory);
      part.lock->unlock();
      if (block.start != nullptr) {
        return block;
      }
    }
  }
  return {};
}

Arena::Block Pool::allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint16_t owner) {
  Arena::Block block;
  if (used().size() > 1 && books_.held.dirty() >= granules_of(bytes)) {
    block = from_memory(bytes, alignment);
  }
  for (std::size_t tries = 0; block.start == nullptr && tries < parts_.size(); ++tries) {
    Part* const part = enter();
    if (part == nullptr) {
      return {.busy = true};
    }
    block = part->arena.allocate(bytes, alignment);
    part->lock->unlock();
    if (!block.full) {
      break;
    }
    t_state.arena = static_cast<std::uint8_t>((t_state.arena + 1U) % parts_.size());
  }
  if (block.start != nullptr) {
    const Space& space = space_of(block.start);
    space.note(space.granule_of(block.start)).store(owner, std::memory_order_relaxed);
  }
  // What this arena has taken another one gives back.
  if (!block.resident && used().size() > 1) {
    if (const Granules excess = books_.held.excess(); excess != Granules{0}) [[unlikely]] {
      trim_arenas(excess, bytes + tuning::kStepBytes);
    }
  }
  return block;
}

std::optional<std::uint64_t> Pool::resize(void* start, std::uint64_t bytes) {
  Part& part = part_of(start);
  if (torn_ || !part.lock->lock_within(Lock::Patience::kCall)) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> lacking = part.arena.resize(start, bytes);
  part.lock->unlock();
  return lacking;
}

// The sum of function(arena) over all arenas, each with its lock, from number `first` on, until
// there is nothing left to do.
template <typename Function>
std::uint64_t Pool::each(std::uint32_t first, Function&& function) {
  std::uint64_t sum = 0;
  const std::span<Part> parts = used();
  for (std::size_t i = 0; i < parts.size() && !torn_; ++i) {
    Part& part = parts[(first + i) % parts.size()];
    if (part.lock->lock_within(Lock::Patience::kCall)) {
      sum += function(part.arena);
      part.lock->unlock();
    }
  }
  return sum;
}

std::uint64_t Pool::trim_arenas(Granules granules, std::uint64_t bytes) {
  return each(t_state.arena, [&](Arena& arena) -> std::uint64_t {
    if (granules == Granules{0} || bytes == 0) {
      return 0;
    }
    const std::uint64_t given = arena.trim(granules, bytes);
    granules -= std::min(granules, granules_in(given));
    bytes -= bytes == Arena::kAll ? 0 : std::min(bytes, given);
    return given;
  });
}

std::uint64_t Pool::trim(std::uint64_t bytes, std::uint64_t less) {
  HeldMemory& held = books_.held;
  return trim_arenas(less == Arena::kAll ? held.forget() : held.forget(granules_of(less)), bytes);
}

std::uint64_t Pool::trim_rest() {
  std::uint64_t sum = 0;
  for (std::uint64_t done = tuning::kMaxGivenBack; done != 0; sum += done) {
    const Granules excess = std::min(books_.held.excess(), granules_in(tuning::kMaxGivenBack));
    done = trim_arenas(excess, Arena::kAll);
  }
  return sum;
}

void Pool::free_lazily() {
  for (Part& part : used()) {
    for (Granules at; at != Space::kNone && !torn_ && part.lock->lock_within(Lock::Patience::kCall);
         part.lock->unlock()) {
      at = part.arena.free_lazily(at);
    }
  }
}

bool Pool::carry(void* from, void* to, std::uint64_t bytes) {
  HeldMemory& held = books_.held;
  if (!held.raised() || !os::is_bare(to, bytes)) {
    os::copy_written(from, to, bytes);
    return false;
  }
  held.carried(granules_of(bytes));
  return os::carry(from, to, bytes);
}

void Pool::keep_out(const void* start, std::uint64_t bytes) {
  Part& part = part_of(start);
  if (!torn_ && part.lock->lock_within(Lock::Patience::kCall)) {
    const Granules first = space_of(start).granule_of(start);
    part.arena.keep_out(first, first + granules_of(bytes));
    part.lock->unlock();
  }
}

void Pool::collapse_long_lived() {
  const std::span<Part> parts = used();
  for (std::size_t i = 0; i < parts.size() && books_.looks && !torn_; ++i) {
    if (parts[i].arena.huge_pages.allowed()) {
      parts[i].arena.long_lived.look(spaces_[i]);
    }
  }
}

void Pool::look_ahead() {
  each(0, [](Arena& arena) { return arena.look_ahead(); });
}

std::uint64_t Pool::retreat() {
  return each(0, [](Arena& arena) { return arena.retreat(); });
}

bool Pool::valid() {
  PageMap::Sums all;
  for (Part& part : parts_) {
    PageMap::Sums sums;
    if (!torn_ && !part.arena.valid(sums)) {
      return false;
    }
    all.used += sums.used;
    all.dirty += sums.dirty;
  }
  return torn_ || (all.used == books_.held.live() && all.dirty == books_.held.dirty());
}

bool Pool::lock_all(Lock::Patience patience) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].lock->lock_within(patience)) {
      unlock_all(i);
      return false;
    }
  }
  return true;
}

void Pool::unlock_all(std::size_t count) {
  for (Part& part : parts_.first(count)) {
    part.lock->unlock();
  }
}

bool Pool::wipe_free_on_fork() {
  bool any = false;
  for (std::size_t i = 0; i < used().size() && !torn_; ++i) {
    any = spaces_[i].wipe_free_on_fork() || any;
  }
  return any;
}

void Pool::copy_on_fork() {
  for (std::size_t i = 0; i < used().size(); ++i) {
    spaces_[i].copy_on_fork();
  }
}

void Pool::after_fork() {
  books_.ahead.after_fork();
  for (Part& part : parts_) {
    if (part.lock->held_by_another()) {
      torn_ = true;
      part.lock->forget_owner();
    }
  }
}

}  // namespace memo
