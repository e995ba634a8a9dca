#include "preload/shadows.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "src/base/lock.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// A block that is alive. A table of open addressing: from the slot of its hash to the next empty one.
struct Row {
  std::uint64_t block = 0;  // 0: empty
  std::uint64_t shadow = 0;
  std::uint64_t bytes = 0;
  std::uint64_t weight = 0;  // of the look at it; 0: it was not looked at
  std::uint64_t pages = 0;   // that had memory when it was given out
};

// Ten times as many as the largest network measured has alive.
constexpr std::uint64_t kRows = 1U << 15U;
constexpr std::uint64_t kMaxRows = kRows / 4 * 3;
// So many blocks are looked at, 14 us each; later one of so many, by chance: an iteration must not
// have its own always or never among them.
constexpr std::uint64_t kLookedInFull = 1024;
constexpr std::uint64_t kLookedOf = 8;

constinit Row* rows = nullptr;
constinit std::uint64_t used = 0;
constinit Lock table;
constinit std::atomic<std::uint64_t> calls{0};
constinit std::atomic<std::uint64_t> won{0};   // page faults
constinit std::atomic<std::uint64_t> held{0};  // bytes
constinit std::atomic<std::uint64_t> peak{0};

std::uint64_t slot_of(std::uint64_t block) {
  return (block >> 4U) * 0x9e3779b97f4a7c15U >> 49U;
}
static_assert(kRows == 1ULL << (64U - 49U));

std::uint64_t next(std::uint64_t slot) {
  return (slot + 1) % kRows;
}

// The block's slot, or the empty one where it would be.
std::uint64_t find(std::uint64_t block) {
  std::uint64_t slot = slot_of(block);
  while (rows[slot].block != 0 && rows[slot].block != block) {
    slot = next(slot);
  }
  return slot;
}

// Empties the slot, and moves those behind it up that would not be found any more.
void erase(std::uint64_t slot) {
  --used;
  for (std::uint64_t at = next(slot); rows[at].block != 0; at = next(at)) {
    const std::uint64_t home = slot_of(rows[at].block);
    if ((at - home) % kRows >= (at - slot) % kRows) {
      rows[slot] = rows[at];
      slot = at;
    }
  }
  rows[slot] = {};
}

// How many blocks the next one stands for that would have been served; 0: it is not looked at.
std::uint64_t weigh() {
  const std::uint64_t number = calls.fetch_add(1, std::memory_order_relaxed);
  if (number < kLookedInFull) {
    return 1;
  }
  std::uint64_t mixed = (number ^ (number >> 7U)) * 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 32U)) * 0xd6e8feb86659fd93U;
  return mixed >> 61U == 0 ? kLookedOf : 0;
}
static_assert(kLookedOf == 1U << (64U - 61U));

// Pages of the block that have memory.
std::uint64_t resident_pages(std::uint64_t block, std::uint64_t bytes) {
  return os::resident_bytes(reinterpret_cast<const void*>(block), bytes) / os::page_size();
}

void hold(std::uint64_t bytes) {
  const std::uint64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  for (std::uint64_t most = peak.load(std::memory_order_relaxed);
       now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed);) {
  }
}

}  // namespace

bool open_shadows() {
  rows = static_cast<Row*>(os::map(kRows * sizeof(Row)));
  return rows != nullptr;
}

Observed observed() {
  return {won.load(std::memory_order_relaxed), peak.load(std::memory_order_relaxed)};
}

void forget_shadows() {
  table.forget_owner();
  won = 0;
  peak = held.load();
}

void* add_shadow(void* block, std::uint64_t bytes, void* shadow, bool served) {
  Row row{reinterpret_cast<std::uint64_t>(block), reinterpret_cast<std::uint64_t>(shadow), bytes,
          served ? weigh() : 0, 0};
  if (row.weight != 0) {
    row.pages = resident_pages(row.block, bytes);
  }
  const WaitLock locked(table);
  if (!locked || used == kMaxRows) {
    return shadow;
  }
  Row& place = rows[find(row.block)];
  const Row stale = std::exchange(place, row);
  used += stale.block == 0 ? 1 : 0;
  hold(bytes - stale.bytes);
  return reinterpret_cast<void*>(stale.shadow);
}

void* take_shadow(void* block) {
  Row row;
  {
    const WaitLock locked(table);
    if (!locked) {
      return nullptr;
    }
    const std::uint64_t slot = find(reinterpret_cast<std::uint64_t>(block));
    row = rows[slot];
    if (row.block == 0) {
      return nullptr;
    }
    erase(slot);
  }
  held.fetch_sub(row.bytes, std::memory_order_relaxed);
  if (row.weight != 0) {
    const std::uint64_t now = resident_pages(row.block, row.bytes);
    won.fetch_add(now > row.pages ? (now - row.pages) * row.weight : 0, std::memory_order_relaxed);
  }
  return reinterpret_cast<void*>(row.shadow);
}

}  // namespace memo
