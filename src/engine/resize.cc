// What realloc does with a block of the engine: it stays, or its contents move.
#include <cstring>
#include <optional>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/base/whole_pages.h"
#include "src/engine/engine.h"

namespace memo {

bool Engine::resize(void* pointer, std::uint64_t bytes) {
  const std::uint64_t now = size(pointer);
  Space* space = lanes.space_of(pointer);
  if (space != nullptr && space->pages.altered(space->granule_of(pointer))) [[unlikely]] {
    // What is cut off would be another's. What the program has made of the pages stays with them.
    if (bytes > now) {
      return false;
    }
    if (const os::WholePages behind(static_cast<char*>(pointer) + bytes, now - bytes);
        behind.any()) {
      os::purge(behind.first, behind.bytes());
    }
    note_left_larger();
    return true;
  }
  const bool pooled = space != nullptr && lanes.is_pool(*space);
  if (pooled && t_state.inside == 0) {
    // A child's free pages are wiped at its own forks until it is noticed: none is taken before.
    if (!forks.noticed()) {
      return false;
    }
    Pool& pool = lanes.shared().pool;
    const std::uint64_t peak = pool.held().asked_peak_bytes();
    const std::optional<std::uint64_t> lacking = pool.resize(pointer, bytes);
    if (const std::uint64_t grown = sub_sat(pool.held().asked_peak_bytes(), peak); grown != 0)
        [[unlikely]] {
      if (Lane* const lane = my_lane(); lane != nullptr) {
        lane->note_growth(grown);
      }
    }
    if (lacking) {
      lanes.at(pool.owner(pointer)).resized(*space, pointer, now, size(pointer));
    }
    if (lacking && *lacking != 0 && pool.headroom().lacks(*lacking, pool.held().live_bytes()))
        [[unlikely]] {
      lanes.passed_on.room_made.add_from_any();
      give_back_idle(lanes.shared(), SlabWord::kNoLane);
    }
    return lacking.has_value();
  }
  // A block of a slab stays where it is while at least half of it is used.
  const bool stays = bytes <= now && bytes >= now / 2;
  if (stays && pooled) {
    note_left_larger();
  }
  return stays;
}

bool Engine::carry(void* from, void* to, std::uint64_t bytes, bool zeros) {
  const Space* space = lanes.space_of(from);
  if (space->pages.altered(space->granule_of(from))) {
    std::memcpy(to, from, bytes);  // a page that is not there may be a file's, or filled on demand
    return false;
  }
  const Space* target = owns(to) ? lanes.space_of(to) : nullptr;  // else the underlying allocator's
  if (bytes >= tuning::kLargeBlock && bytes == size(from) && lanes.is_pool(*space) &&
      space == target) {
    return lanes.shared().pool.carry(from, to, bytes);
  }
  MEMO_DCHECK(!zeros || target == nullptr);
  if (bytes >= tuning::kMinLooked && (target != nullptr || zeros)) {
    os::copy_written(from, to, bytes, zeros);
  } else {
    std::memcpy(to, from, bytes);
  }
  return false;
}

void Engine::note_foreign_growth(std::uint64_t bytes) {
  if (t_state.inside != 0 || !forks.noticed()) {
    return;
  }
  Lane* lane = my_lane();
  if (lane == nullptr || !lane->note_foreign_growth(bytes)) {
    lanes.passed_on.pass_on(bytes, &Counters::fallback_realloc);
  }
}

}  // namespace memo
