#include "preload/statistics.h"

#include <algorithm>

#include "preload/process.h"
#include "preload/shadows.h"
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
  now.counters.add(engine.passed_on());
  auto best = Phase::kIdle;
  for (std::uint32_t i = 0; i < engine.lane_count(); ++i) {
    const Lane& lane = engine.lane(i);
    now.counters.add(lane.counters);
    const Served served = lane.served();
    now.served_allocations += served.allocations;
    now.served_bytes += served.bytes;
    now.since_large_bytes += served.large_bytes;
    now.slab_bytes += lane.tallest();
    now.lower_bound_bytes += lane.bound();
    now.plan_seconds += lane.plan_seconds();
    if (rank(lane.phase()) > rank(best)) {
      best = lane.phase();
    }
  }
  now.observes = g_process.observes;
  now.observed_faults = observed().page_faults;
  now.held_peak_bytes = observed().peak_bytes;
  // A slab would have had one for each of its own pages.
  const std::uint64_t first_touches = now.slab_bytes / os::page_size();
  now.observed_faults -= std::min(now.observed_faults, first_touches);
  now.threads = engine.lane_count();
  now.peak_bytes = os::peak_memory();
  now.phase = g_process.options.DISABLE != 0 ? "disabled" : name_of(best);
}

}  // namespace memo
