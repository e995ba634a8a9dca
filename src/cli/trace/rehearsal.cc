// See rehearsal.h. Cold.
#include "src/cli/trace/rehearsal.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "src/cli/trace/addresses.h"
#include "src/engine/lane.h"
#include "src/learn/find_period.h"
#include "src/learn/lifetimes.h"

namespace memo::cli {
namespace {

// One thread of the trace.
struct Actor {
  const Stream* stream = nullptr;
  Analysis* analysis = nullptr;
  std::size_t at = 0;  // of its events
  Lane lane;
  std::map<std::uint32_t, void*> alive;  // by allocation
  std::uint64_t generation = 0;          // of the plan at hand
  bool has_served = false;
  std::uint64_t planned = 0;  // bytes, up to the latest call
  std::uint64_t at_hand = 0;
  std::uint64_t got = 0;
  std::vector<bool> touched;       // granules of the slab, since it has its memory
  bool on_trial = false;           // the plan at hand
  std::uint64_t trial_height = 0;  // bytes of that plan's slab
};

// The current plan was a guess, and wrong: figures are of those after it.
void forget_trial(Actor& actor) {
  Analysis& analysis = *actor.analysis;
  analysis.period.reset();
  analysis.locked_after = analysis.lower_bound = analysis.height = 0;
  analysis.wrapping = analysis.left_out = 0;
  analysis.problem = {};
  analysis.bytes_since_lock = actor.lane.counters.planned_bytes.get();
  actor.has_served = false;
}

// The plan that the lane has taken up at its latest call.
void look_at_plan(Actor& actor, const StoredPlan& plan) {
  Analysis& analysis = *actor.analysis;
  analysis.plan_changes += actor.generation != 0 ? 1 : 0;
  actor.generation = plan.generation;
  if (analysis.locked_after == 0) {
    analysis.locked_after = analysis.allocations;
  }
  const Schedule& schedule = *plan.made;
  if (schedule.symbolic != nullptr) {
    return;
  }
  // Of a plan that this lane has just made, the log still begins where learning began.
  const Lane& lane = actor.lane;
  const std::uint64_t noted = lane.phase() == Phase::kReady
                                  ? lane.recorder().count() - lane.tracker().state().waiting.begins
                                  : 1;
  analysis.period = {static_cast<std::uint32_t>(analysis.allocations - noted), plan.iteration,
                     schedule.count / plan.iteration};
  analysis.problem = problem_of({schedule.steps, schedule.count});
  analysis.lower_bound = schedule.lower_bound;
  analysis.height = schedule.height;
  std::uint32_t unplanned = 0;
  analysis.wrapping = 0;
  for (std::uint32_t i = 0; i < schedule.count; ++i) {
    const Step& step = schedule.steps[i];
    unplanned += step.offset == kUnplanned ? 1 : 0;
    analysis.wrapping += step.offset != kUnplanned && step.lifetime > schedule.count - i ? 1 : 0;
  }
  analysis.left_out = unplanned / analysis.period->unroll;
}

// Which iterations have begun before the thread's call number `at`.
void begin_iterations(Actor& actor, std::uint64_t at) {
  const std::vector<std::uint32_t>& marks = actor.stream->marks;
  std::vector<IterationBytes>& iterations = actor.analysis->iterations;
  while (iterations.size() < marks.size() && marks[iterations.size()] <= at) {
    iterations.emplace_back();
  }
}

// Bytes of the slab that a block at `start` touches first; 0 for a block of the pool.
std::uint64_t touch(Actor& actor, const void* start, std::uint64_t size) {
  if (actor.lane.slab_height() == 0) {
    actor.touched.clear();
  }
  const Space& slab = actor.lane.slab().space();
  if (start < slab.base() || start >= slab.base() + slab.bytes()) {
    return 0;
  }
  const std::uint64_t first = slab.granule_of(start).count();
  const std::uint64_t end = first + granules_of(size).count();
  actor.touched.resize(std::max<std::uint64_t>(actor.touched.size(), end));
  std::uint64_t fresh = 0;
  for (std::uint64_t at = first; at < end; ++at) {
    fresh += actor.touched[at] ? 0U : 1U;
    actor.touched[at] = true;
  }
  return bytes_of(Granules{fresh});
}

void look_at_iteration(Actor& actor, std::uint64_t size, std::uint64_t slab_fresh) {
  Analysis& analysis = *actor.analysis;
  const Counters& counters = actor.lane.counters;
  const std::uint64_t got = actor.lane.tracker().state().search.got;
  begin_iterations(actor, analysis.allocations);
  const std::uint64_t planned = counters.planned_bytes.get();
  const std::uint64_t at_hand = counters.at_hand_bytes.get();
  if (!analysis.iterations.empty()) {
    IterationBytes& now = analysis.iterations.back();
    now.asked += size;
    now.planned += planned - actor.planned;
    now.at_hand += at_hand - actor.at_hand;
    now.fresh += got - actor.got + slab_fresh;
  }
  actor.got = got;
  actor.planned = planned;
  actor.at_hand = at_hand;
}

void look_at_trial(Actor& actor) {
  Trials& trials = actor.analysis->trials;
  const Serving& serving = actor.lane.tracker().state().serving;
  const bool tries = actor.lane.tracker().state().confidence.on_trial();
  if (actor.on_trial && serving.plan == nullptr) {
    ++trials.lost;
    trials.lost_bytes += actor.trial_height;
    forget_trial(actor);
  }
  if (tries && !actor.on_trial) {
    ++trials.begun;
    actor.trial_height = serving.plan->made->height;
  }
  actor.on_trial = tries;
}

void look_at_call(Actor& actor, const void* start, std::uint64_t size) {
  Analysis& analysis = *actor.analysis;
  const Lane& lane = actor.lane;
  look_at_iteration(actor, size, touch(actor, start, size));
  const Phase now = lane.phase();
  if (analysis.phases.empty() || analysis.phases.back().phase != now) {
    analysis.phases.push_back({now, analysis.allocations});
  }
  ++analysis.allocations;
  analysis.bytes += size;
  const StoredPlan* plan = lane.tracker().state().serving.plan;
  look_at_trial(actor);
  if (plan != nullptr && plan->generation != actor.generation) {
    look_at_plan(actor, *plan);
  }
  actor.has_served = actor.has_served || now == Phase::kServing;
  analysis.bytes_since_lock += actor.has_served ? size : 0;
}

class Stage {
 public:
  Stage(const Rehearsal& how, std::uint64_t room) : how_(how), room_(room) {
    shared_->slabs.limit = UINT64_MAX;
    shared_->slabs.huge_pages = Choice::kNever;
    shared_->passed_on = &passed_on_;
    options_.PLAN_TIME = how.plan_milliseconds;
    options_.THRESHOLD = how.threshold;
    char* planner = options_.PLANNER.value;
    planner[how.planner.copy(planner, sizeof options_.PLANNER.value - 1)] = '\0';
    shared_->options = &options_;
    shared_->timeless = true;
    shared_->keep_trace = how.recorded;
  }
  // Opens the pool, and a slab for each of `threads`. False where there are no addresses.
  bool open(std::size_t threads) {
    if (!pool_.open(room_)) {
      return false;
    }
    spaces_ = std::make_unique<Addresses[]>(threads);
    slabs_ = std::make_unique<Slab[]>(threads);
    for (std::size_t i = 0; i < threads; ++i) {
      if (!spaces_[i].open(room_)) {
        return false;
      }
      slabs_[i].open(&spaces_[i].space, &shared_->slabs, &shared_->pool);
    }
    shared_->slabs.open(slabs_.get(), static_cast<std::uint32_t>(threads));
    shared_->pool.open({&part_, 1}, &pool_.space, false);
    shared_->pool.take_as_written();
    return true;
  }
  void enter(const Stream& stream, Analysis& analysis) {
    auto actor = std::make_unique<Actor>();
    actor->stream = &stream;
    actor->analysis = &analysis;
    actor->lane.open(shared_.get(), static_cast<std::uint32_t>(actors_.size()));
    actor->lane.take();
    actor->lane.begin(find_stack_bounds());
    actors_.push_back(std::move(actor));
  }
  // The events of all threads, in the order of the trace.
  void play() {
    std::map<std::uint64_t, Actor*> next;  // by the row of the trace
    const auto wait = [&](Actor& actor) {
      if (actor.at < actor.stream->events.size()) {
        next[actor.stream->events[actor.at].row] = &actor;
      }
    };
    for (const auto& actor : actors_) {
      wait(*actor);
    }
    while (!next.empty() && (how_.stop == nullptr || !how_.stop->load(std::memory_order_relaxed))) {
      Actor& actor = *next.begin()->second;
      next.erase(next.begin());
      const StreamEvent& event = actor.stream->events[actor.at++];
      event.is_free ? free(actor, event.allocation) : allocate(actor, event.allocation);
      wait(actor);
    }
  }
  void end() {
    for (const auto& actor : actors_) {
      Analysis& analysis = *actor->analysis;
      const Lane& lane = actor->lane;
      const Phase last = lane.phase();
      begin_iterations(*actor, UINT64_MAX);
      analysis.counters.add(lane.counters);
      analysis.served_bytes = lane.counters.planned_bytes.get();
      analysis.plans = lane.counters.plans.get();
      analysis.loop = lane.loop();
      analysis.standing = lane.standing();
      analysis.plan_seconds = lane.plan_seconds();
      analysis.repeats = analysis.period && (last == Phase::kServing || last == Phase::kReady);
      if (!analysis.period) {
        analysis.height = lane.slab().tallest();
        analysis.lower_bound = lane.slab().bound();
      }
      if (analysis.plans == 0 && !analysis.period) {
        const auto found = find_period(lane.recorder().log());
        analysis.unplanned = found ? found->length : 0;
      }
    }
  }

 private:
  void allocate(Actor& actor, std::uint32_t index) {
    const Allocation& asked = actor.stream->allocations[index];
    const Request request{
        .size = asked.size, .alignment = std::uint64_t{1} << asked.alignment_log2, .op = asked.op};
    const std::uint64_t site = actor.lane.tracker().wants_site() ? asked.site : 0;
    void* start = asked.size < room_ && request.alignment <= tuning::kMaxAlignment
                      ? actor.lane.allocate(request, site)
                      : nullptr;
    if (start != nullptr) {
      actor.alive[index] = start;
    }
    look_at_call(actor, start, asked.size);
  }
  void free(Actor& actor, std::uint32_t index) {
    const auto at = actor.alive.find(index);
    if (at == actor.alive.end()) {
      return;
    }
    void* start = at->second;
    actor.alive.erase(at);
    Space& slab = actor.lane.slab().space();
    if (start >= slab.base() && start < slab.base() + slab.bytes()) {
      if (actor.lane.slab().wants_deaths()) {
        actor.lane.note_death(slab, start, 0);
      }
      slab.pages.free(slab.granule_of(start));
    } else {
      const Space& pool = pool_.space;
      actor.lane.free_pooled(start, bytes_of(pool.pages.length(pool.granule_of(start))), 0);
    }
  }

  const Rehearsal& how_;
  std::uint64_t room_;  // bytes of addresses of the pool, and of each slab
  std::unique_ptr<Shared> shared_ = std::make_unique<Shared>();
  Options options_;
  Counters passed_on_;
  Addresses pool_;
  Pool::Part part_;
  std::unique_ptr<Addresses[]> spaces_;
  std::unique_ptr<Slab[]> slabs_;
  std::vector<std::unique_ptr<Actor>> actors_;
};

// Addresses enough for all blocks that are alive at once, with room for what lies badly.
std::uint64_t room_for(const Streams& streams) {
  std::uint64_t sum = 0;
  for (const auto& [thread, stream] : streams) {
    std::uint64_t live = 0;
    std::uint64_t most = 0;
    for (const StreamEvent& event : stream.events) {
      const Allocation& allocation = stream.allocations[event.allocation];
      const std::uint64_t bytes =
          std::max<std::uint64_t>(bytes_of(granules_of(std::min(allocation.size, kMaxBlock))),
                                  std::uint64_t{1} << std::min<int>(allocation.alignment_log2, 26));
      live = event.is_free ? live - bytes : live + bytes;
      most = std::max(most, live);
    }
    sum = std::min(sum + most, tuning::kMaxReserved / 8);
  }
  return std::bit_ceil(4 * sum + tuning::kMaxAlignment);
}

}  // namespace

bool rehearse(const Streams& streams, const Rehearsal& how, Analyses& analyses) {
  const RecursionGuard guard;
  Stage stage(how, room_for(streams));
  if (!stage.open(streams.size())) {
    return false;
  }
  for (const auto& [thread, stream] : streams) {
    stage.enter(stream, analyses[thread]);
  }
  stage.play();
  stage.end();
  return true;
}

std::optional<SymbolicInput> find_changing_shapes(std::span<const Allocation> stream) {
  std::optional<SymbolicInput> found = symbolic_input(stream);
  for (const std::size_t cut : kCuts) {
    if (!found) {
      found = symbolic_input(stream.first(stream.size() - stream.size() / cut));
    }
  }
  return found;
}

}  // namespace memo::cli
