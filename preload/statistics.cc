#include "preload/statistics.h"

#include <sys/resource.h>
#include <algorithm>
#include <atomic>

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

// Telling it opens a file. getrusage() tells where it has grown at once, but not below what whoever
// started the process has had.
constinit std::atomic<std::uint64_t> told_peak{0};  // bytes
constinit std::atomic<Nanos> told_peak_at{Nanos{0}};
constinit std::atomic<long> most_then{0};  // KiB, by getrusage()

std::uint64_t peak_of_late() {
  constexpr Nanos kPeriod = 10 * os::kSecond;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const Nanos now = os::nanoseconds();
  if (most_then.exchange(used.ru_maxrss, std::memory_order_relaxed) != used.ru_maxrss ||
      now - told_peak_at.load(std::memory_order_relaxed) >= kPeriod) {
    told_peak_at.store(now, std::memory_order_relaxed);
    told_peak.store(os::peak_memory(), std::memory_order_relaxed);
  }
  return told_peak.load(std::memory_order_relaxed);
}

}  // namespace

void take(Snapshot& now, Peak peak) {
  const Engine& engine = g_process.engine;
  now.counters.add(engine.lanes.passed_on);
  auto best = Phase::kIdle;
  for (std::uint32_t i = 0; i < engine.lanes.count(); ++i) {
    const Lane& lane = engine.lanes.at(i);
    now.counters.add(lane.counters);
    const Served served = lane.served();
    now.served_allocations += served.allocations;
    now.served_bytes += served.bytes;
    now.since_large_bytes += served.large_bytes;
    now.plan_seconds += lane.plan_seconds();
    if (const Loop loop = lane.loop(); loop.run > now.loop.run) {
      now.loop = loop;
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
  now.observes = g_process.observes;
  now.observed_faults = observed().page_faults;
  now.held_peak_bytes = observed().peak_bytes;
  // A slab would have had one for each of its own pages.
  const std::uint64_t first_touches = now.slab_bytes / os::page_size();
  now.observed_faults -= std::min(now.observed_faults, first_touches);
  now.threads = engine.lanes.count();
  now.peak_bytes = peak == Peak::kNow ? os::peak_memory() : peak_of_late();
  now.phase = g_process.options.DISABLE != 0 ? "disabled" : name_of(best);
}

void forget_statistics() {
  told_peak_at = Nanos{0};
}

}  // namespace memo
