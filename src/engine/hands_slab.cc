// How a lane gets memory for its plan's slab. Hot.
#include <algorithm>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/hands.h"

namespace memo {
namespace {

// Bytes of the last `calls` blocks that are alive before the call at `position`: the pool has them, and
// they have a place in the plan's slab, too. Where a lifetime is unknown it counts as long.
std::uint64_t alive_twice(const Schedule& schedule, StepIndex position, std::uint32_t calls) {
  std::uint64_t bytes = 0;
  for (std::uint32_t age = 1; age <= calls; ++age) {
    const Step& step = schedule.at(schedule.before(position, age));
    const bool alive = step.lifetime == 0 || step.lifetime >= age;
    bytes += step.offset != kUnplanned && alive ? round_up(step.size, kGranule) : 0;
  }
  return bytes;
}

// What is alive twice where the schedule is served from the cursor on. Since the process began another plan may have been
// followed and been wrong: then all of the iteration so far may be, else the calls that made the plan be believed.
std::uint64_t owed_for(const Schedule& schedule, const TrackerState& state) {
  const StepIndex position = state.serving.cursor.position();
  const std::uint64_t heard = state.tally.counters().large_allocations.get();
  const bool begins = !state.walks_whole && heard >= position.count();
  const std::uint32_t calls = std::max(tuning::kRepeatContext, begins ? position.count() : 0);
  return alive_twice(schedule, position, std::min(calls, schedule.count));
}

}  // namespace

Answer Hands::open_slab(const Schedule& schedule) {
  const StoredPlan& served = *tracker_->state().serving.plan;
  slab.turn.work(os::coarse_nanoseconds());
  if (slab.height() == 0 && !shared_->keep_trace && !shared_->timeless) {
    const std::uint32_t others = borrow_slab(*shared_, slab, number_, schedule.height);
    if (slab.height() == 0 && others >= shared_->slabs.most) {
      return {.busy = true};
    }
  }
  const bool trial = tracker_->state().serving.trial != 0;
  slab.space().user.set(number_, shared_->keep_trace || trial);
  const std::uint64_t before = slab.height();
  const Slab::Raised raised = slab.raise(schedule.height, trial);
  if (raised == Slab::Raised::kRefused) {
    return {};
  }
  if (schedule.lower_bound > bound.load(std::memory_order_relaxed)) {
    bound.store(schedule.lower_bound, std::memory_order_relaxed);
  }
  told.opened_for.store(served.generation, std::memory_order_relaxed);
  if (raised == Slab::Raised::kEnough) {
    if (schedule.symbolic != nullptr) {
      slab.sweep();  // each of its iterations asks
    }
    return {.yes = true};
  }
  owing_ends_ = 2;
  // What was lent is no new memory: the pool's is kept for the threads that come next.
  if (!trial && before == 0) {
    shared_->pool.returned.owe(owed_for(schedule, tracker_->state()));
  }
  // Walking the whole heap takes 1 ms in BERT, and a request that comes after a pause waits for it:
  // only for a slab that may raise the process' peak.
  const EngineHost& host = shared_->host;
  if (!trial && raised == Slab::Raised::kTallest && host.trim_next != nullptr) {
    const RecursionGuard guard;
    host.trim_next();
  }
  if (host.keep != nullptr && (shared_->reports || shared_->keeps_much())) {
    const RecursionGuard guard;
    host.keep(guard);
  }
  return {.yes = true};
}

}  // namespace memo
