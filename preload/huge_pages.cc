#include "preload/huge_pages.h"

#include <algorithm>
#include <span>

#include "preload/process.h"
#include "preload/reporter.h"
#include "src/base/huge_page_rules.h"
#include "src/base/mappings.h"
#include "src/base/os.h"
#include "src/base/own_pages.h"
#include "src/base/tuning.h"
#include "src/serve/gathering.h"

namespace memo {
namespace {

constexpr std::size_t kHeapParts = 16;

// In turns of the background thread in which somebody is served.
constinit std::uint64_t turns = 0;
constinit std::uint64_t due = 0;        // 0: nobody has been served yet
constinit std::uint64_t held_most = 0;  // bytes of the pool in use, at any look

const Pool& pool() {
  return g_process.engine.lanes.shared().pool;
}

// From a plan, or where none is found, from what the pool has at hand.
bool anyone_is_served() {
  return any_lane(g_process.engine.lanes, [](const Lane& lane) { return lane.is_served(); });
}

bool may_gather() {
  return anyone_is_served() && !pool().headroom().is_short();
}

// As a huge page asks for that took so long, or until the process does nothing: then nobody waits for what comes next. What
// may have changed in the meantime is asked each time.
bool rest(Nanos took) {
  const Nanos began = os::nanoseconds();
  const std::uint64_t before = served_iterations();
  for (Nanos step = tuning::kGatherRest;; step = std::min(2 * step, tuning::kMaxGatherRest)) {
    const Nanos used = os::processor_nanoseconds();
    if (!os::rest(step) || !may_gather()) {
      return false;
    }
    if (os::processor_nanoseconds() - used < step / tuning::kGatherShare ||
        has_rested(took, os::nanoseconds() - began, served_iterations() - before)) {
      return os::process_gathers();
    }
  }
}

// The parts of the heap, at most so many.
std::span<const os::Mapping> heap(std::span<os::Mapping> parts) {
  std::size_t count = 0;
  os::each_mapping([&](const os::Mapping& one) {
    if (one.is_heap) {
      parts[count++] = one;
    }
    return count < parts.size();
  });
  return parts.first(count);
}

}  // namespace

bool gathering_is_due() {
  const Engine& engine = g_process.engine;
  if (g_process.observes || !engine.lanes.opened() ||
      g_process.options.HUGEPAGES == Choice::kNever || g_process.options.SHARE == Share::kWeights ||
      !may_gather()) {
    return false;
  }
  due = turns == 0 ? tuning::kFirstGathering : due;
  ++turns;
  const std::uint64_t held = pool().held().live_bytes();
  if (held >= held_most + std::max(tuning::kWorthHugePages, held_most / tuning::kGatherAgain)) {
    held_most = held;
    due = std::min(due, turns + tuning::kFirstGathering);
  }
  if (turns < due) {
    return false;
  }
  held_most = std::max(held_most, held);
  due = 2 * turns;
  return true;
}

void gather_huge_pages(const RecursionGuard&) {
  if (!os::machine_gathers() || !os::process_gathers()) {
    return;
  }
  os::Mapping parts[kHeapParts];
  const std::span<const os::Mapping> small_blocks = heap(parts);
  Gathering gathering;
  const auto look = [&](std::uint64_t start, std::uint64_t bytes, auto&& fits) {
    return gathering.gather(start, start + bytes, fits, rest);
  };
  const auto look_at = [&](const Space& space, auto&& fits) {
    return look(reinterpret_cast<std::uint64_t>(space.base()), space.committed_bytes(), fits);
  };
  const auto is_own = [](const void* page) { return os::is_own(page); };
  // What is free may be given back next, and the kernel takes back a huge page only as a whole.
  bool goes_on = look_at(pool().space(), [&](const void* page) {
    const Space& space = pool().space();
    return space.pages.states().all_used(space.granule_of(page), granules_in(os::kHugePage)) &&
           is_own(page);
  });
  for (std::size_t i = 0; i < small_blocks.size() && goes_on; ++i) {
    goes_on = look(small_blocks[i].start, small_blocks[i].bytes, is_own);
  }
  // A slab is used as a whole again and again, whatever of it is free just now.
  const Shared& shared = g_process.engine.lanes.shared();
  for (std::uint32_t i = 0; i < shared.lanes_taken() && goes_on; ++i) {
    goes_on = look_at(shared.lanes[i].slab_space(), is_own);
  }
}

void forget_gathering() {
  turns = due = held_most = 0;
}

}  // namespace memo
