#include "preload/statistics.h"

#include <algorithm>
#include <utility>

#include "preload/observed_blocks.h"
#include "preload/process.h"
#include "src/base/os.h"
#include "src/base/peak_memory.h"

namespace memo {
namespace {

int rank(Phase phase) {
  switch (phase) {
    case Phase::kServing:
      return 3;
    case Phase::kReady:
    case Phase::kLearning:
      return 2;
    case Phase::kPooling:
      return 1;
    case Phase::kIdle:
      break;
  }
  return 0;
}

}  // namespace

void take(Snapshot& now) {
  const Engine& engine = g_process.engine;
  now.counters.add(engine.lanes.passed_on);
  auto best = Phase::kIdle;
  bool has_plan = false;
  const auto tell = [&](const StandingWords& words) {
    now.evidence = words.evidence;
    now.verdict = words.verdict;
    now.next = words.next;
  };
  tell(words_of(Standing::kNothing));
  for (std::uint32_t i = 0; i < engine.lanes.count(); ++i) {
    const Lane& lane = engine.lanes.at(i);
    now.counters.add(lane.counters);
    const Served served = lane.served();
    now.since_large_bytes += served.large_bytes;
    now.since_planned_bytes += served.planned_bytes;
    now.since_at_hand_bytes += served.at_hand_bytes;
    now.plan_seconds += lane.plan_seconds();
    const Loop loop = lane.loop();
    const bool planned = lane.phase() == Phase::kServing;
    if (i == 0 || std::pair(planned, loop.run) > std::pair(has_plan, now.loop.run)) {
      has_plan = planned;
      now.loop = loop;
      tell(lane.standing());
    }
    if (rank(lane.phase()) > rank(best)) {
      best = lane.phase();
    }
  }
  const Slabs* slabs = engine.lanes.opened() ? &engine.lanes.shared().slabs : nullptr;
  for (std::uint32_t i = 0; slabs != nullptr && i < slabs->count(); ++i) {
    const Slab& slab = slabs->at(i);
    now.slab_bytes += slab.tallest();
    now.lower_bound_bytes += slab.bound();
  }
  now.observes = g_process.observes ? 1 : 0;
  now.observed_faults = observed().page_faults;
  now.held_peak_bytes = observed().peak_bytes;
  // A slab would have had one for each of its own pages.
  const std::uint64_t first_touches = now.slab_bytes / os::page_size();
  now.observed_faults -= std::min(now.observed_faults, first_touches);
  now.threads = engine.lanes.count();
  if (engine.lanes.opened()) {
    const HeldMemory& held = engine.lanes.shared().pool.held();
    now.pool_used_bytes = held.live_bytes();
    now.pool_free_bytes = held.dirty_bytes();
  }
  now.peak_bytes = os::peak_memory();
  now.phase = g_process.options.DISABLE != 0 ? "disabled" : name_of(best);
}

}  // namespace memo
