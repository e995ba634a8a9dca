// See tracker.h: the table of transitions, and how a call comes in. Hot.
#include "src/engine/tracker.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/engine/tracker_stages.h"

namespace memo {
namespace {

enum class When : std::uint8_t { kAlways, kLearns, kCannot };

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

void leave_plan(TrackerState& s) {
  if (s.serving.plan != nullptr) {
    s.left[s.left_count++] = s.serving.plan;
  }
  // Of a trial that is not lost, but left for another plan, no call is noted any more. While a plan
  // that was found waits for memory, every call has been.
  s.effects |=
      s.serving.tries_own() || (s.serving.trial != 0 && stages::is_serving(s)) ? kRestartLog : 0U;
  s.serving.trial = 0;
  s.serving.rounds = Rounds();
  s.serving.first = FirstIteration();
  s.serving.plan = nullptr;
  s.serving.placer.stop();
  s.serving.shapes.close();
  s.serving.following = false;
}

void forget(TrackerState& s) {
  s.serving = Serving();
  s.search.demand = Demand();
  s.search.looping.store(false, std::memory_order_relaxed);
  s.search.restarts = s.search.symbolic = s.search.trials_lost = s.search.lost_shift = 0;
}

bool wants_site(const TrackerState& s) {
  const Phase now = s.phase.load(std::memory_order_relaxed);
  return (now == Phase::kPooling && s.search.demand.wants_sites()) ||
         (s.terms.keeps_trace && now != Phase::kIdle);
}

// Only the size of the next call matters.
bool glides(const TrackerState& s) {
  return s.phase.load(std::memory_order_relaxed) == Phase::kServing &&
         s.serving.shapes.plan() == nullptr && !s.serving.following && s.serving.trial == 0 &&
         s.serving.first.is_over() && !stages::is_crowded(s) &&
         !(s.terms.keeps_trace && s.learns) && s.terms.tape == nullptr;
}

Action noted(const TrackerState& s, TapeEntry entry) {
  if (s.terms.tape != nullptr) [[unlikely]] {
    s.terms.tape(s, entry);
  }
  return entry.action;
}

void begin(TrackerState& s) {
  s.left_count = 0;
  s.at_hand = AtHand();
  s.search.added = false;
  s.search.known.store(false, std::memory_order_relaxed);
}

}  // namespace

const char* name_of(Phase phase) {
  constexpr const char* kNames[kPhases] = {"idle", "learning", "learning", "serving", "pooling"};
  return kNames[static_cast<std::size_t>(phase)];
}

namespace stages {

bool move(TrackerState& s, Event event) {
  const Phase from = s.phase.load(std::memory_order_relaxed);
  const Row* row = row_of(from, event, s.learns);
  if (row == nullptr) {
    return false;
  }
  if ((row->effects & kRelease) != 0) {
    leave_plan(s);
  }
  if ((row->effects & kForget) != 0) {
    forget(s);
  }
  if ((row->effects & kStarted) != 0) {
    s.search.demand.planned();
    s.search.restarts = 0;
    s.tally.begin_plans();
  }
  s.effects |= row->effects;
  if (row->to != from) {
    s.phase.store(row->to, std::memory_order_release);
    s.effects |= row->to != Phase::kReady ? kTellPhase : 0U;  // a plan is told of by itself
  }
  return true;
}

Action ask(TrackerState& s, Ask question, std::uint64_t offset) {
  s.at_hand.asked = question;
  const Action action{question, s.effects, offset};
  s.effects = 0;
  return action;
}

Action finish(TrackerState& s, Ask end, std::uint64_t offset) {
  s.glides = glides(s);
  s.wants_site.store(wants_site(s), std::memory_order_relaxed);
  return ask(s, end, offset);
}

Action open(TrackerState& s, AtHand::Why why) {
  s.at_hand.why = why;
  return ask(s, Ask::kOpenSlab);
}

}  // namespace stages

using namespace stages;

void Tracker::open(const TrackerTerms& terms) {
  state_.terms = terms;
  state_.tally.open(terms.counters);
}

void Tracker::begin_histories(GrowingArray<std::uint32_t>* sizes,
                              GrowingArray<std::uint32_t>* sites) {
  state_.search.sizes.start(sizes, tuning::kMaxLog);
  state_.search.sites.start(sites, tuning::kMaxLog);
  state_.learns = true;
  noted(state_, {.kind = TapeEntry::Kind::kHistories});
}

namespace {

// A call comes in.
Action enter(TrackerState& s) {
  switch (s.phase.load(std::memory_order_relaxed)) {
    case Phase::kIdle:
      break;
    case Phase::kLearning:
      return look(s);
    case Phase::kReady:
      note(s);
      return wait_for_quiet(s);
    case Phase::kServing:
      if (s.serving.trial != 0) {
        note(s);
        s.search.added = true;
        s.search.worth_a_look =
            s.search.sizes.add(s.at_hand.call.size, s.at_hand.call.alignment_log2);
        if (s.search.worth_a_look && !s.serving.own &&
            s.search.sizes.shift() > s.serving.plan->iteration) {
          lose(s);  // it was a part of this stream's loop
          return give(s);
        }
      } else if (s.terms.keeps_trace && s.learns) {
        note(s);
      }
      return begin_step(s);
    case Phase::kPooling:
      if (s.terms.common) {
        return give(s);
      }
      if (!s.learns) {
        return ask(s, Ask::kMemory);
      }
      return s.search.restarts <= tuning::kMaxRestarts || s.terms.keeps_trace
                 ? look(s)
                 : ask(s, Ask::kFollow);
  }
  return finish(s, Ask::kPass);
}

// An answer takes the call on.
Action go_on(TrackerState& s, const Answer& answer) {
  switch (s.at_hand.asked) {
    case Ask::kClaim:
      if (s.at_hand.earlier != kUnplanned) {
        s.serving.first.note_alive(answer.yes);
      }
      return claimed(s, answer.miss);
    case Ask::kGive:
      return given(s, answer);
    case Ask::kFollow:
      return found(s, answer);
    case Ask::kGuess:
      return guessed(s, answer);
    case Ask::kPrepare:
      return prepared(s, answer);
    case Ask::kOpenSlab:
      return answer.yes ? opened(s) : refused(s, answer);
    case Ask::kImproved:
      return improved(s, *answer.best);
    case Ask::kLearn:
      return learned(s, answer);
    case Ask::kLearnSites:
      return sites_learned(s, answer);
    case Ask::kMemory:
      return answer.yes && move(s, Event::kMemory) ? look(s) : ask(s, Ask::kFollow);
    case Ask::kServe:
    case Ask::kDone:
    case Ask::kPass:
      break;
  }
  return finish(s, Ask::kDone);
}

}  // namespace

Action Tracker::called(const Call& call) {
  begin(state_);
  state_.at_hand.call = call;
  return noted(state_, {.kind = TapeEntry::Kind::kCalled, .call = call, .action = enter(state_)});
}

Action Tracker::answered(const Answer& answer) {
  state_.left_count = 0;
  return noted(
      state_,
      {.kind = TapeEntry::Kind::kAnswered, .answer = answer, .action = go_on(state_, answer)});
}

Action Tracker::told(std::size_t marks) {
  TrackerState& s = state_;
  begin(s);
  s.at_hand.told = true;
  Ask question = Ask::kDone;
  if (phase() != Phase::kServing) {
    s.effects |= kMark;
    question = searching() && marks + 1 >= 3 ? Ask::kLearn : Ask::kDone;
  }
  return noted(s, {.kind = TapeEntry::Kind::kTold,
                   .number = marks,
                   .action = ends(question) ? finish(s, question) : ask(s, question)});
}

Action Tracker::happened(Event event) {
  begin(state_);
  const bool moved = move(state_, event);
  if (moved && (event == Event::kLeft || event == Event::kAbandoned)) {
    state_.walks_whole = false;
  }
  if (event == Event::kWoken) {
    state_.serving.rounds = Rounds();  // the slab begins at its start again
  }
  return noted(
      state_, {.kind = TapeEntry::Kind::kHappened,
               .event = event,
               .action = moved && event == Event::kWoken ? stages::open(state_, AtHand::Why::kAgain)
                                                         : finish(state_, Ask::kDone)});
}

void Tracker::grown(std::uint64_t bytes) {
  noted(state_, {.kind = TapeEntry::Kind::kGrown, .number = bytes});
  Tally& tally = state_.tally;
  tally.other(bytes);
  if (phase() == Phase::kServing) {
    tally.fallback(bytes, &Counters::fallback_realloc);
  } else {
    tally.counters().fallback_realloc.add();
  }
}

Action Tracker::not_placed(const Call& call, const Step& step, Miss miss) {
  begin(state_);
  state_.at_hand.call = call;
  state_.at_hand.serving = state_.at_hand.matched = true;
  state_.at_hand.wrapped = state_.serving.placer.wrapped();
  state_.at_hand.offset = step.offset;
  return claimed(state_, miss);
}

Action Tracker::iterated(const Plan& best) {
  count_iteration(state_);
  take_lower(state_, best);
  return finish(state_, Ask::kDone);
}

const Schedule& Tracker::wanted() const {
  const Serving& serving = state_.serving;
  return serving.shapes.plan() != nullptr ? *serving.shapes.schedule() : **serving.best;
}

bool Tracker::valid() const {
  const Phase now = phase();
  const Serving& serving = state_.serving;
  const bool has_plan = now == Phase::kReady || now == Phase::kServing;
  if (has_plan != (serving.plan != nullptr) || (has_plan && serving.plan->users == 0) ||
      !ends(state_.at_hand.asked) || state_.effects != 0) {
    return false;
  }
  if (now == Phase::kReady && serving.cursor.position() >= serving.plan->made->end()) {
    return false;
  }
  if (now == Phase::kServing && (serving.placer.schedule() == nullptr ||
                                 serving.placer.position() >= serving.placer.schedule()->end())) {
    return false;
  }
  if (serving.trial != 0 && (!has_plan || !state_.learns || state_.glides)) {
    return false;
  }
  return (!serving.following || now == Phase::kServing) && state_.glides == memo::glides(state_);
}

}  // namespace memo
