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

bool Hands::take_slab(const SlabWish& wish, Nanos now) {
  Slab* mine = shared_->slabs.take(wish, now, [&](Slab& slab, std::uint64_t word) {
    return take_idle_slab(*shared_, slab, word, wish);
  });
  if (mine == nullptr) {
    return false;
  }
  mine->use(now);
  slab_.store(mine, std::memory_order_relaxed);
  word_ = wish.word();
  return true;
}

// What was refused is asked for again after 1, 2, 4, ... further calls.
Answer Hands::open_slab(const Schedule& schedule) {
  const bool has_room = holds_slab() && schedule.height <= slab().height();
  if (has_room || !slab_refusals_.waits()) {
    const Answer answer = ask_for_slab(schedule);
    slabs_in_use_ = answer.busy;
    if (answer.yes) {
      slab_refusals_.restart();
      return answer;
    }
    slab_refusals_.refused(tuning::kMaxSlabWait);
  }
  return {.busy = slabs_in_use_};
}

Answer Hands::ask_for_slab(const Schedule& schedule) {
  const StoredPlan& served = *tracker_->state().serving.plan;
  if (!take_slab({number_, served.generation, schedule.height}, os::coarse_nanoseconds())) {
    return {.busy = true};
  }
  const bool trial = tracker_->state().serving.trial != 0;
  Slab& its = slab();
  its.want_deaths(shared_->keep_trace || trial);
  const std::uint64_t before = its.height();
  const Slab::Raised raised = its.raise(schedule.height, trial);
  if (raised == Slab::Raised::kRefused) {
    if (its.height() == 0) {
      let_slab_go();
    }
    return {};
  }
  its.note_bound(schedule.lower_bound);
  if (raised == Slab::Raised::kEnough) {
    if (schedule.symbolic != nullptr) {
      its.sweep();  // each of its iterations asks
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
