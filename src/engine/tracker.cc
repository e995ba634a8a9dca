// See tracker.h: the table of transitions, and what becomes of a call, from the top down. Hot.
#include "src/engine/tracker.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/engine/fallback_reasons.h"

namespace memo {
namespace {

// What is done at a change of phase, besides a Verdict on the plan that is left; a sum.
constexpr std::uint32_t kRelease = 1U << 16;          // the lane is left without its plan
constexpr std::uint32_t kRestartFollower = 1U << 17;  // known plans are followed from here on
constexpr std::uint32_t kRestartLog = 1U << 18;       // the calls noted so far are forgotten
constexpr std::uint32_t kGiveBack = 1U << 19;         // the slab's memory goes
constexpr std::uint32_t kStarted = 1U << 20;          // serving begins: what learning held goes
constexpr std::uint32_t kVerdicts = (1U << 16) - 1;

// Times that the calls which are not noted double.
constexpr std::uint32_t kMaxDoubled = 10;

struct Row {
  Phase from;
  Event event;
  When when;
  Phase to;
  std::uint32_t effects;
};
constexpr Row kRows[] = {
#define TRANSITION(from, event, condition, to, effects, text) \
  {Phase::from, Event::event, When::condition, Phase::to, effects},
#include "src/engine/tracker.def"
#undef TRANSITION
};

constexpr const Row* row_of(Phase from, Event event, bool learns) {
  for (const Row& row : kRows) {
    if (row.from == from && row.event == event &&
        (row.when == When::kAlways || (row.when == When::kLearns) == learns)) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace

const char* name_of(Phase phase) {
  constexpr const char* kNames[kPhases] = {"idle", "learning", "learning", "serving", "pooling"};
  return kNames[static_cast<std::size_t>(phase)];
}

void Tracker::open(const TrackerTerms& terms, Memory* memory, Knowledge* knowledge) {
  state_.terms = terms;
  state_.counts.open(terms.counters);
  memory_ = memory;
  knowledge_ = knowledge;
}

void Tracker::begin_histories(GrowingArray<std::uint32_t>* sizes,
                              GrowingArray<std::uint32_t>* sites) {
  state_.search.sizes.start(sizes, tuning::kMaxLog);
  state_.search.sites.start(sites, tuning::kMaxLog);
  state_.learns = true;
}

// Phases.

// The event's row of tracker.def is done, if the phase has one; else nothing is, and false. `more`
// is done besides: effects, and a verdict on the plan that is left; `but` is not.
bool Tracker::move(Event event, std::uint32_t more, std::uint32_t but) {
  TrackerState& s = state_;
  const Phase from = s.phase.load(std::memory_order_relaxed);
  const Row* row = row_of(from, event, s.learns);
  if (row == nullptr) {
    return false;
  }
  const std::uint32_t effects = (row->effects | more) & ~but;
  StoredPlan* const left = (effects & kRelease) != 0 ? s.serving.plan : nullptr;
  const bool forgets = ((effects & kRelease) != 0 && leave_plan()) || (effects & kRestartLog) != 0;
  if ((effects & kStarted) != 0) {
    s.search.demand.planned();
    s.search.restarts = s.search.deaf = 0;
    s.counts.begin_plans();
  }
  if (row->to != from) {
    s.phase.store(row->to, std::memory_order_release);
  }
  if (forgets) {
    knowledge_->forget_calls();
  }
  if ((effects & kRestartFollower) != 0) {
    knowledge_->follow_anew();
  }
  if (left != nullptr) {
    knowledge_->leave(*left, effects & kVerdicts);
  }
  // What a plan that was wrong has written lies elsewhere in the next one's slab.
  if ((effects & kRelease) != 0 && (row->to == Phase::kLearning || row->to == Phase::kPooling)) {
    memory_->give_back(false);
  }
  if ((effects & kGiveBack) != 0) {
    memory_->give_back(true);
  }
  if (row->to != from && row->to != Phase::kReady) {
    knowledge_->tell_phase(row->to);  // a plan is told of by itself
  }
  if ((effects & kStarted) != 0) {
    start();
  }
  return true;
}

// True if the calls noted are to be forgotten: never those of a trace. Of a trial that is not lost,
// but left for another plan, no call is noted any more. While a plan that was found waits for
// memory, every call has been.
bool Tracker::leave_plan() {
  Serving& serving = state_.serving;
  Confidence& confidence = state_.confidence;
  const bool forgets = !state_.terms.keeps_trace &&
                       (confidence.tries_own() || (confidence.on_trial() && is_serving()));
  confidence.leave();
  serving.plan = nullptr;
  serving.placer.stop();
  serving.shapes.close();
  serving.seeks_others = false;
  return forgets;
}

// Serving begins, or a plan on trial is believed. While it is not, the log goes on.
void Tracker::start() {
  if (!state_.confidence.on_trial()) {
    knowledge_->planned();
  }
  memory_->begin_serving(state_.confidence.on_trial(), state_.confidence.own());
}

// Only the size of the next call matters.
bool Tracker::may_take_short_way() const {
  const TrackerState& s = state_;
  return is_serving() && s.serving.shapes.plan() == nullptr && !s.serving.seeks_others &&
         !s.confidence.on_trial() && s.confidence.first.is_over() &&
         !(s.terms.keeps_trace && s.learns);
}

void Tracker::finish() {
  TrackerState& s = state_;
  const Phase now = s.phase.load(std::memory_order_relaxed);
  s.short_way = may_take_short_way();
  s.tries.store(s.confidence.on_trial(), std::memory_order_relaxed);
  s.wants_site.store((now == Phase::kPooling && s.search.demand.wants_sites()) ||
                         (s.terms.keeps_trace && now != Phase::kIdle),
                     std::memory_order_relaxed);
}

void Tracker::happened(Event event) {
  TrackerState& s = state_;
  s.search.lacks_slab.store(false, std::memory_order_relaxed);
  const bool moved = move(event);
  if (moved && event == Event::kLeft) {
    s.walks_whole = false;
    s.search.demand = Demand();
    s.search.restarts = s.search.deaf = 0;
  }
  if (moved && event == Event::kWoken) {
    open();
  }
  finish();
}

void Tracker::abandon() {
  TrackerState& s = state_;
  s.phase.store(Phase::kIdle, std::memory_order_release);
  s.serving = Serving();
  s.search.demand = Demand();
  s.search.looping.store(false, std::memory_order_relaxed);
  s.search.lacks_slab.store(false, std::memory_order_relaxed);
  s.search.restarts = s.search.deaf = s.search.symbolic = 0;
  s.confidence.forget();
  s.walks_whole = false;
  finish();
}

void Tracker::told() {
  state_.search.lacks_slab.store(false, std::memory_order_relaxed);
  if (!is_serving() && knowledge_->mark() >= 3 && state_.learns && searching()) {
    learn();
  }
  finish();
}

void Tracker::grown(std::uint64_t bytes) {
  CallCounts& counts = state_.counts;
  counts.other(bytes);
  if (is_serving()) {
    counts.fallback(bytes, &Counters::fallback_realloc);
  } else {
    counts.counters().fallback_realloc.add();
  }
}

// A call.

Outcome Tracker::called(const Call& call) {
  state_.search.lacks_slab.store(false, std::memory_order_relaxed);
  const Outcome outcome = decide(call);
  finish();
  return outcome;
}

Outcome Tracker::decide(const Call& call) {
  TrackerState& s = state_;
  Way way;
  switch (s.phase.load(std::memory_order_relaxed)) {
    case Phase::kIdle:
      return {};
    case Phase::kLearning:
      break;
    case Phase::kReady:
      note(call, way);
      return wait_for_quiet(call, way);
    case Phase::kServing:
      if (s.confidence.on_trial()) {
        note(call, way);
        way.added = true;
        way.worth_a_look = s.search.sizes.add(call.size, call.alignment_log2);
        if (way.worth_a_look && !s.confidence.own() &&
            s.search.sizes.shift() > s.serving.plan->iteration) {
          lose(call, Evidence::kLongerLoop);
          return give(call, way);
        }
      } else if (s.terms.keeps_trace && s.learns) {
        note(call, way);
      }
      return serve(call, way);
    case Phase::kPooling:
      if (s.terms.common) {
        return give(call, way);
      }
      if (!s.learns) {
        if (!knowledge_->can_learn() || !move(Event::kMemory)) {
          return follow_known(call, way);
        }
      } else if (s.search.deaf != 0 && !hears_again(call, way)) {
        look_at_demand(call);
        return follow_known(call, way);
      }
      break;
  }
  note(call, way);
  look_at_demand(call);
  return follow_known(call, way);
}

void Tracker::note(const Call& call, Way& way) {
  Search& search = state_.search;
  if (!knowledge_->note(call)) {
    state_.counts.counters().recorder_full.add();
    if (++search.restarts > tuning::kMaxAttempts) {
      const std::uint32_t doubled = std::min(search.restarts - tuning::kMaxAttempts, kMaxDoubled);
      search.deaf = tuning::kMaxLog << (doubled - 1);
    }
  }
  way.noted = true;
}

// True where sizes repeat after all, once the calls that pass in any case are over.
bool Tracker::hears_again(const Call& call, Way& way) {
  Search& search = state_.search;
  search.sizes.add(call.size, call.alignment_log2);
  search.deaf -= search.deaf > 1 ? 1U : 0U;
  if (search.deaf > 1 || !search.sizes.looping()) {
    return false;
  }
  search.deaf = 0;
  knowledge_->forget_calls();
  way.added = true;
  return true;
}

void Tracker::look_at_demand(const Call& call) {
  Demand& demand = state_.search.demand;
  const Demand::Look seen = demand.look(call.peak);
  if (seen != Demand::Look::kNothing) {
    move(seen == Demand::Look::kNewLoop ? Event::kNewLoop : Event::kDemandKnown);
  }
  if (demand.unordered()) {
    memory_->allow_slack(false);
  }
}

Outcome Tracker::follow_known(const Call& call, Way way) {
  const Known known = follow(call);
  return known.plan != nullptr && take_up(call, known) ? serve(call, way) : give(call, way);
}

// Between the plan and its first block: the call must be the step expected, and the time a quiet
// one.
Outcome Tracker::wait_for_quiet(const Call& call, Way way) {
  TrackerState& s = state_;
  const Schedule& schedule = *s.serving.plan->made;
  if (!s.serving.cursor.expects(schedule, call.size)) {
    s.confidence.lose_trial(s.serving.plan->iteration, (*s.serving.best)->height,
                            call.op == Op::k_realloc);
    move(Event::kMismatch);
    return give(call, way);
  }
  if (call.live <= s.waiting.quiet_level || --s.waiting.patience == 0) {
    return begin_from(call) ? serve(call, way) : give(call, way);
  }
  s.serving.cursor.follow(schedule, call.size);
  return give(call, way);
}

// No plan places the call: the pool gives the block, and it is looked whether the stream repeats.
Outcome Tracker::give(const Call& call, Way way) {
  const Given given = memory_->give(call);
  count_given(call, given, way);
  if (way.noted && !way.served) {
    look_at_size(call, way);
  }
  look_at_site(call, way);
  return {.kind = Outcome::Kind::kBlock, .dirty = true, .offset = 0, .given = given};
}

void Tracker::count_given(const Call& call, const Given& given, const Way& way) {
  TrackerState& s = state_;
  Counters& counters = s.counts.counters();
  if (given.start == nullptr) {
    if (!way.missed) {
      (given.busy ? counters.fallback_busy : counters.fallback_limit).add();
    }
    s.counts.other(call.size);
    return;
  }
  counters.pooled_allocations.add();
  counters.pooled_bytes.add(call.size);
  const bool at_hand = given.lacks == 0;
  const bool pooling = s.phase.load(std::memory_order_relaxed) == Phase::kPooling;
  if (pooling && at_hand) {
    s.counts.begin_pooling();
  }
  s.search.got += given.lacks;
  s.search.calm = given.again != 0 ? 0 : s.search.calm + 1;
  at_hand ? s.counts.at_hand(call.size) : s.counts.other(call.size);
  if (pooling) {
    s.search.demand.judge(call.size, at_hand);
  }
  // A call that a plan has missed is counted under the reason of that.
  if (!at_hand && !way.missed) {
    if (pooling) {
      s.counts.fallback(call.size, &Counters::fallback_grown);
    } else {
      counters.fallback_learning.add();
    }
  }
}

// Whether sizes repeat, after a call that was noted and not served.
void Tracker::look_at_size(const Call& call, const Way& way) {
  Search& search = state_.search;
  const bool worth_a_look =
      way.added ? way.worth_a_look : search.sizes.add(call.size, call.alignment_log2);
  const bool looping = search.sizes.looping();
  if (looping && !search.looping.load(std::memory_order_relaxed)) {
    memory_->allow_slack(true);
  }
  search.looping.store(looping, std::memory_order_relaxed);
  if (looping) {
    search.loop.store({search.sizes.shift(), search.sizes.matched()}, std::memory_order_relaxed);
  }
  if (worth_a_look && searching()) {
    learn();
  }
}

// Whether call sites repeat, while sizes do not. The plan is taken up like any other known one:
// when some calls have fitted it.
void Tracker::look_at_site(const Call& call, const Way& way) {
  TrackerState& s = state_;
  if (s.phase.load(std::memory_order_relaxed) != Phase::kPooling || !way.noted || call.site == 0 ||
      !s.search.demand.wants_sites() || !s.search.sites.add(call.site, call.alignment_log2) ||
      s.search.symbolic >= tuning::kMaxAttempts) {
    return;
  }
  if (const std::uint32_t length = knowledge_->learn_sites(what_to_learn()); length != 0) {
    s.counts.counters().plans.add();
    s.counts.counters().symbolic_calls.add(length);
    ++s.search.symbolic;
    s.search.sites.lock_broke(2 * length);  // four more iterations before another is made
  }
}

void Tracker::learn() {
  TrackerState& s = state_;
  const Learned learned = knowledge_->learn(what_to_learn());
  if (learned.plan == nullptr) {
    return;
  }
  s.counts.counters().plans.add();
  s.serving.plan = learned.plan;
  s.confidence.adopt(true, false, learned.trial);
  s.serving.best = &learned.plan->made;
  s.serving.cursor = Cursor(learned.position);
  s.waiting = {learned.quiet_level, learned.length + kContext, learned.begins};
  s.walks_whole = true;
  move(Event::kPlanMade);
}

// A call while a plan is served.

Outcome Tracker::serve(const Call& call, Way way) {
  TrackerState& s = state_;
  MEMO_DCHECK(is_serving() && s.serving.plan != nullptr && s.serving.placer.schedule() != nullptr);
  way.served = true;
  if (s.confidence.first.differs()) {
    lose(call, Evidence::kLivesOtherwise);
    return give(call, way);
  }
  if (s.serving.shapes.plan() != nullptr &&
      s.serving.shapes.begins_another(s.serving.placer.position(), call.size) &&
      !change_shape({call.size, StepIndex{0}})) {
    return give(call, way);
  }
  Placing placing;
  place(call, placing);
  placing.matched = placing.is_step;
  return after_placing(call, way, placing);
}

Outcome Tracker::not_placed(const Call& call, const Step& step, Miss miss) {
  state_.search.lacks_slab.store(false, std::memory_order_relaxed);
  Placing placing{.matched = true, .is_step = true, .miss = miss, .offset = step.offset};
  placing.wrapped = state_.serving.placer.wrapped();
  Way way;
  way.served = true;
  const Outcome outcome = after_placing(call, way, placing);
  finish();
  return outcome;
}

// The step that the call is, and its place in the slab.
void Tracker::place(const Call& call, Placing& placing) {
  Serving& serving = state_.serving;
  const Step* step = serving.placer.next(call.size);
  placing.is_step = step != nullptr;
  placing.wrapped = step != nullptr && serving.placer.wrapped();
  placing.miss = serving.placer.why_no_place(step);
  if (placing.miss != Miss::kNone) {
    return;
  }
  placing.offset = step->offset;
  const std::uint64_t earlier =
      state_.confidence.first.alive_at(*serving.placer.schedule(), serving.placer.position());
  const Claimed claimed = memory_->claim(call, step->offset);
  placing.miss = claimed.miss;
  placing.dirty = claimed.dirty;
  if (earlier != kUnplanned) {
    state_.confidence.first.note_alive(memory_->in_use(earlier));
  }
}

// After the call was placed, or not. Another plan or shape may get no memory, which leaves the lane
// without a plan. A place that was claimed before is served all the same.
Outcome Tracker::after_placing(const Call& call, Way way, Placing placing) {
  Serving& serving = state_.serving;
  // The calls say so, and not the store: there the plan may have been withdrawn by now.
  if (serving.seeks_others && !state_.confidence.tries_own() &&
      serving.placer.expected(tuning::kFit)) {
    serving.seeks_others = false;
    knowledge_->follow_anew();
  }
  // A plan that is known fits better than one on trial.
  if ((!placing.matched || serving.seeks_others || state_.confidence.tries_own()) &&
      try_others(call, placing.matched) && !placing.matched) {
    place(call, placing);
  }
  if (is_serving() && placing.wrapped) {
    end_iteration(call, placing);
  }
  Shapes::Start start;
  if (serving.shapes.plan() != nullptr && serving.shapes.find(call.size, placing.matched, start)) {
    change_shape(start);
  }
  return answer(call, way, placing);
}

void Tracker::end_iteration(const Call& call, const Placing& placing) {
  TrackerState& s = state_;
  if (s.serving.shapes.plan() != nullptr) {
    s.walks_whole = true;
    s.counts.counters().iterations.add();
    return;
  }
  if (s.confidence.ends_trial()) {
    start();
  }
  const bool placed = placing.miss == Miss::kNone;
  iterated(placed ? placing.offset : 0, placed ? call.size : 0);
}

// The call's step ended an iteration of a plan of fixed sizes. The next call begins one: the moment
// for a lower plan, since the fewest blocks lie where the old one has put them.
void Tracker::iterated(std::uint64_t offset, std::uint64_t size) {
  TrackerState& s = state_;
  Serving& serving = s.serving;
  const Schedule& schedule = *serving.placer.schedule();
  s.walks_whole = true;
  s.counts.counters().iterations.add(schedule.count / serving.plan->iteration);
  if (s.confidence.strange() && serving.placer.walked_through()) {
    s.confidence.note_walked();
    serving.plan->walked.store(true, std::memory_order_relaxed);
  }
  memory_->end_iteration(offset, size, s.confidence.own() && !s.confidence.on_trial());
  if (const Plan& best = serving.plan->best(); best.get() != &schedule) [[unlikely]] {
    serving.best = &best;
    serving.placer.start(best.get(), &best.index(), Cursor());
    memory_->trim(best->height);
    s.counts.counters().lowered.add();
  }
}

Outcome Tracker::answer(const Call& call, Way way, const Placing& placing) {
  TrackerState& s = state_;
  s.confidence.first.note(placing.miss);
  if (placing.miss == Miss::kNone) {
    s.counts.planned(call.size);
    s.confidence.note_placed();
    return {.kind = Outcome::Kind::kPlace,
            .dirty = placing.dirty,
            .offset = placing.offset,
            .given = {}};
  }
  if (!is_serving()) {
    return give(call, way);
  }
  if (s.confidence.tries_own() && placing.miss != Miss::kLeftOut &&
      s.serving.plan->iteration < tuning::kLongLoop) {
    // A short plan on trial that misses a call is of a part of the loop.
    lose(call, Evidence::kTrialMissed);
    return give(call, way);
  }
  way.missed = true;
  s.counts.fallback(call.size, reason_of(placing.miss).counter);
  knowledge_->tell_miss(call, placing.miss, s.serving.placer.position());
  if (placing.miss == Miss::kOccupied) {
    s.serving.placer.note_in_the_way(call.size);
  }
  if (const auto evidence = s.confidence.after_miss(s.serving.placer.health()); evidence) {
    lose(call, *evidence);
  }
  return give(call, way);
}

// Plans that are taken up, changed and left.

Known Tracker::follow(const Call& call) {
  const Confidence& confidence = state_.confidence;
  const std::uint64_t tried =
      confidence.tries_own() ? confidence.placed() + tuning::kRepeatContext : 0;
  return knowledge_->follow(call, state_.serving.plan, tried);
}

// Memory for what is to be served from; where there is none the plan is left. While all slabs are
// busy, a thread whose loop has a plan learns none of its own.
bool Tracker::open() {
  TrackerState& s = state_;
  const Schedule& schedule = wanted();
  // Since the process began another plan may have been followed and been wrong: then all of the
  // iteration so far may be alive twice, else the calls that made the plan be believed.
  const StepIndex position = s.serving.cursor.position();
  MEMO_DCHECK(s.serving.plan != nullptr && position < schedule.end());
  const std::uint64_t heard = s.counts.counters().large_allocations.get();
  const bool begins = !s.walks_whole && heard >= position.count();
  const std::uint32_t calls = std::max(tuning::kRepeatContext, begins ? position.count() : 0);
  const Opened opened = memory_->open({.schedule = schedule,
                                       .plan = *s.serving.plan,
                                       .position = position,
                                       .calls = std::min(calls, schedule.count),
                                       .trial = s.confidence.on_trial()});
  if (opened != Opened::kOpened) {
    s.search.lacks_slab.store(opened == Opened::kBusy, std::memory_order_relaxed);
    move(Event::kRefused);
  }
  return opened == Opened::kOpened;
}

// Serves from the plan's step at the cursor on, and the call is the first one.
bool Tracker::begin_from(const Call& call) {
  if (!open()) {
    return false;
  }
  Serving& serving = state_.serving;
  const bool shaped = serving.shapes.plan() != nullptr;
  serving.placer.start(shaped ? serving.shapes.schedule() : serving.best->get(),
                       shaped ? serving.shapes.index() : &serving.best->index(),
                       Cursor(serving.cursor.position()));
  state_.confidence.begin(serving.placer.schedule()->count);
  move(Event::kOpened);
  if (state_.confidence.on_trial()) {
    state_.search.sizes.add(call.size, call.alignment_log2);
  }
  return true;
}

// A known plan fits the call, and none is served. True if it is served from now on.
bool Tracker::take_up(const Call& call, const Known& known) {
  adopt(known, state_.learns ? known.trial : 0);
  if (!find_place(known)) {
    move(Event::kUnusable);
    return false;
  }
  return begin_from(call);
}

// While a plan is served the others are followed from a call that did not match on, until the plan
// is found again: a program that goes to and fro between shapes is met by the other shape's plan as
// soon as that fits. True if another plan is served from now on.
bool Tracker::try_others(const Call& call, bool matched) {
  Serving& serving = state_.serving;
  const Known known = follow(call);
  const bool first = !serving.seeks_others;
  serving.seeks_others = known.plan == nullptr;
  if (known.plan == nullptr) {
    // At the beginning of an iteration a plan that begins as this one does is believed at once,
    // since the first blocks are often the largest; the plans are followed all the same.
    const bool may_guess = first && !matched && serving.shapes.plan() == nullptr &&
                           serving.placer.position() < tuning::kBeginning;
    return may_guess && go_over_to_guess(call);
  }
  knowledge_->follow_anew();
  if (known.plan == serving.plan) {
    knowledge_->leave(*known.plan, 0);  // it is used once
    return false;
  }
  move(Event::kOtherPlan, state_.confidence.tries_own() ? kWithdrawn : 0U);
  adopt(known, 0);
  if (!find_place(known)) {
    move(Event::kUnusable);
    return false;
  }
  if (matched) {  // the call is behind it already
    serving.cursor = Cursor((serving.cursor.position() + StepIndex{1}) % wanted().end());
  }
  return begin_from(call);
}

bool Tracker::go_over_to_guess(const Call& call) {
  Serving& serving = state_.serving;
  const StepIndex position = serving.placer.position();
  MEMO_DCHECK(serving.plan != nullptr && serving.plan->users != 0);
  const Known guess = knowledge_->guess(call, *serving.plan->made, position);
  if (guess.plan == nullptr) {
    return false;
  }
  move(Event::kOtherPlan);
  adopt(guess, 0);
  serving.cursor = Cursor(position);
  serving.seeks_others = begin_from(call);
  return serving.seeks_others;
}

void Tracker::adopt(const Known& known, std::uint32_t trial) {
  Serving& serving = state_.serving;
  MEMO_DCHECK(serving.plan == nullptr);
  const StoredPlan& plan = *known.plan;
  const bool strange =
      plan.made->symbolic == nullptr && !plan.walked.load(std::memory_order_relaxed);
  state_.confidence.adopt(false, strange, trial);
  serving.plan = known.plan;
  serving.best = &plan.best();
}

// Where in the plan the call at hand is, the step before the one that comes next; a parametric plan
// is laid out. False if it cannot be.
bool Tracker::find_place(const Known& known) {
  Serving& serving = state_.serving;
  const Schedule& schedule = *known.plan->made;
  if (schedule.symbolic == nullptr) {
    serving.cursor = Cursor(schedule.before(known.position, 1));
    return true;
  }
  if (!serving.shapes.afford(schedule.count, state_.counts.counters().large_allocations.get())) {
    return false;
  }
  if (!knowledge_->complete(*known.plan)) {
    return false;
  }
  serving.best = &known.plan->best();
  return serving.shapes.open(*(*serving.best)->symbolic) &&
         lay_out({known.first, known.position - StepIndex{1}});
}

bool Tracker::lay_out(const Shapes::Start& start) {
  const StepIndex at = state_.serving.shapes.lay_out(start, state_.terms.slab_room);
  if (at == kNoStep) {
    return false;
  }
  state_.serving.cursor = Cursor(at);
  state_.counts.counters().shapes.add();
  return true;
}

// Another shape has begun: the plan is laid out for it, if the stream has earned that. False if the
// plan is left for it.
bool Tracker::change_shape(const Shapes::Start& start) {
  Serving& serving = state_.serving;
  Shapes& shapes = serving.shapes;
  if (!shapes.afford(shapes.plan()->count, state_.counts.counters().large_allocations.get())) {
    return true;
  }
  if (!lay_out(start)) {
    move(Event::kUnusable);
    return false;
  }
  if (!open()) {
    return false;
  }
  serving.placer.change(shapes.schedule(), shapes.index(), serving.cursor);
  return true;
}

Wanted Tracker::what_to_learn() const {
  const Search& search = state_.search;
  const std::uint64_t got = search.calm < search.sizes.shift() ? search.got : 0;
  return {search.sizes, state_.confidence.copies_to_try(search.sizes),
          state_.confidence.bytes_to_try(got)};
}

// The plan is left, and judged.
void Tracker::lose(const Call& call, Evidence evidence) {
  TrackerState& s = state_;
  const Serving& serving = s.serving;
  const Judgement judgement =
      s.confidence.judge(evidence, serving.plan->iteration, (*serving.best)->height,
                         s.search.sizes.required(), call.op == Op::k_realloc);
  s.counts.counters().diverged.add();
  s.search.loop.store({}, std::memory_order_relaxed);
  s.left.store(static_cast<std::uint8_t>(evidence) + 1, std::memory_order_relaxed);
  if (judgement.verdict == 0) {  // it served for long
    s.search.symbolic = 0;
  }
  if (judgement.run) {
    s.search.sizes.lock_broke(*judgement.run);
  }
  knowledge_->tell_lost(s.confidence.placed(), evidence);
  move(Event::kLost, judgement.verdict | (judgement.gives_back ? kGiveBack : 0U),
       judgement.tried ? kRestartFollower : 0U);
}

const Schedule& Tracker::wanted() const {
  const Serving& serving = state_.serving;
  return serving.shapes.plan() != nullptr ? *serving.shapes.schedule() : **serving.best;
}

StandingWords Tracker::standing() const {
  const Phase now = phase();
  if (now == Phase::kServing || now == Phase::kReady) {
    const bool tried = state_.tries.load(std::memory_order_relaxed);
    return words_of(tried ? Standing::kTried : Standing::kBelieved);
  }
  if (const Loop seen = loop(); seen.repeats()) {
    const bool missing = most_until_planned(seen.length) > seen.run;
    return words_of(missing ? Standing::kRepeats : Standing::kUnlike);
  }
  const std::uint8_t left = state_.left.load(std::memory_order_relaxed);
  return left != 0 ? words_of(static_cast<Evidence>(left - 1)) : words_of(Standing::kNothing);
}

bool Tracker::valid() const {
  const Phase now = phase();
  const Serving& serving = state_.serving;
  const bool has_plan = now == Phase::kReady || now == Phase::kServing;
  if (has_plan != (serving.plan != nullptr) || (has_plan && serving.plan->users == 0)) {
    return false;
  }
  if (now == Phase::kReady && serving.cursor.position() >= serving.plan->made->end()) {
    return false;
  }
  if (now == Phase::kServing && (serving.placer.schedule() == nullptr ||
                                 serving.placer.position() >= serving.placer.schedule()->end())) {
    return false;
  }
  if (state_.confidence.on_trial() && (!has_plan || !state_.learns || state_.short_way)) {
    return false;
  }
  return (!serving.seeks_others || now == Phase::kServing) &&
         state_.short_way == may_take_short_way();
}

}  // namespace memo
