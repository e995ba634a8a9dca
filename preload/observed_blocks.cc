#include "preload/observed_blocks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "preload/process.h"
#include "src/base/check.h"
#include "src/base/lock.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

// A block that is alive. A table of open addressing: from the slot of its hash to the next empty
// one.
struct state::ObservedBlocks::Row {
  std::uint64_t block = 0;  // 0: empty
  std::uint64_t stand_in = 0;
  std::uint64_t bytes = 0;
  std::uint64_t weight = 0;  // of the look at it; 0: it was not looked at
  std::uint64_t pages = 0;   // that had memory when it was given out
};

namespace {

using Row = state::ObservedBlocks::Row;

// Many more than a program has large blocks alive: beyond that, blocks are not counted.
constexpr std::uint64_t kRows = 1U << 15U;
constexpr std::uint64_t kMaxRows = kRows / 4 * 3;
// Each of the first blocks is looked at; later one of eight, by chance, since a look is a system
// call. Not every eighth: an iteration must not have the same block looked at each time.
constexpr std::uint64_t kLookedInFull = 1024;
constexpr std::uint64_t kLookedOf = 8;

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
  while (g_process.observed.rows[slot].block != 0 && g_process.observed.rows[slot].block != block) {
    slot = next(slot);
  }
  return slot;
}

// Empties the slot, and moves those behind it up that would not be found any more.
void erase(std::uint64_t slot) {
  MEMO_DCHECK(g_process.observed.used != 0);
  --g_process.observed.used;
  for (std::uint64_t at = next(slot); g_process.observed.rows[at].block != 0; at = next(at)) {
    const std::uint64_t home = slot_of(g_process.observed.rows[at].block);
    if ((at - home) % kRows >= (at - slot) % kRows) {
      g_process.observed.rows[slot] = g_process.observed.rows[at];
      slot = at;
    }
  }
  g_process.observed.rows[slot] = {};
}

// How many blocks the next one stands for that would have been served; 0: it is not looked at.
std::uint64_t weigh() {
  const std::uint64_t number = g_process.observed.calls.fetch_add(1, std::memory_order_relaxed);
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
  const std::uint64_t now =
      g_process.observed.held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  for (std::uint64_t most = g_process.observed.peak.load(std::memory_order_relaxed);
       now > most &&
       !g_process.observed.peak.compare_exchange_weak(most, now, std::memory_order_relaxed);) {
  }
}

}  // namespace

bool open_observed_blocks() {
  g_process.observed.rows = static_cast<Row*>(os::map(kRows * sizeof(Row)));
  return g_process.observed.rows != nullptr;
}

Observed observed() {
  return {g_process.observed.spared.load(std::memory_order_relaxed),
          g_process.observed.peak.load(std::memory_order_relaxed)};
}

void* add_observed_block(void* block, std::uint64_t bytes, void* stand_in, bool served) {
  Row row{reinterpret_cast<std::uint64_t>(block), reinterpret_cast<std::uint64_t>(stand_in), bytes,
          served ? weigh() : 0, 0};
  if (row.weight != 0) {
    row.pages = resident_pages(row.block, bytes);
  }
  const WaitLock locked(g_process.observed.table);
  if (!locked || g_process.observed.used == kMaxRows) {
    return stand_in;
  }
  Row& place = g_process.observed.rows[find(row.block)];
  const Row stale = std::exchange(place, row);
  g_process.observed.used += stale.block == 0 ? 1 : 0;
  MEMO_DCHECK(g_process.observed.used <= kMaxRows);
  hold(bytes - stale.bytes);
  return reinterpret_cast<void*>(stale.stand_in);
}

void* take_observed_block(void* block) {
  Row row;
  {
    const WaitLock locked(g_process.observed.table);
    if (!locked) {
      return nullptr;
    }
    const std::uint64_t slot = find(reinterpret_cast<std::uint64_t>(block));
    row = g_process.observed.rows[slot];
    if (row.block == 0) {
      return nullptr;
    }
    erase(slot);
  }
  g_process.observed.held.fetch_sub(row.bytes, std::memory_order_relaxed);
  if (row.weight != 0) {
    const std::uint64_t now = resident_pages(row.block, row.bytes);
    g_process.observed.spared.fetch_add(now > row.pages ? (now - row.pages) * row.weight : 0,
                                        std::memory_order_relaxed);
  }
  return reinterpret_cast<void*>(row.stand_in);
}

}  // namespace memo
