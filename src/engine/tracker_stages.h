// The stages of a call in a tracker: each takes the call on to the next question, or to its end.
// Hot; for src/engine/tracker*.cc alone.
#pragma once

#include "src/base/tuning.h"
#include "src/engine/tracker_state.h"

namespace memo::stages {

// Of all phases: tracker.cc.
inline bool is_serving(const TrackerState& s) {
  return s.phase.load(std::memory_order_relaxed) == Phase::kServing;
}

// The next call is to have a place that the blocks that stay in the slab are not in the way of.
inline bool is_crowded(const TrackerState& s) {
  return s.serving.rounds.crowded >= tuning::kMaxCrowded && !s.serving.rounds.evaded;
}

// The event's row of tracker.def is done, if the phase has one; else nothing is, and false.
bool move(TrackerState& s, Event event);
// The question whose answer takes the call on, and the end of it.
Action ask(TrackerState& s, Ask question, std::uint64_t offset = 0);
Action finish(TrackerState& s, Ask end, std::uint64_t offset = 0);
// Memory is asked for what is to be served from.
Action open(TrackerState& s, AtHand::Why why);

// Learning, Ready and Pooling: tracker_search.cc.
void note(TrackerState& s);
Action look(TrackerState& s);
Action wait_for_quiet(TrackerState& s);
Action give(TrackerState& s);
Action given(TrackerState& s, const Answer& answer);
Action learned(TrackerState& s, const Answer& answer);
Action sites_learned(TrackerState& s, const Answer& answer);

// A plan is taken up, changed and left: tracker_plans.cc.
Action found(TrackerState& s, const Answer& answer);
Action prepared(TrackerState& s, const Answer& answer);
Action guessed(TrackerState& s, const Answer& answer);
Action opened(TrackerState& s);
Action refused(TrackerState& s, const Answer& answer);
Action change_shape(TrackerState& s, const Shapes::Start& start, AtHand::Why why);
// Most calls are not the plan's: it is left, and judged.
void lose(TrackerState& s);
// If the plan was on trial, that is over. True if it was one of this stream: the next one must show more.
bool lose_trial(TrackerState& s);

// Serving: tracker_serve.cc.
Action begin_step(TrackerState& s);
Action step(TrackerState& s);
Action claimed(TrackerState& s, Miss miss);
Action end_step(TrackerState& s);
Action improved(TrackerState& s, const Plan& best);
// The call's step ended an iteration of a plan of fixed sizes.
void count_iteration(TrackerState& s);
// The next call begins an iteration: the moment for a lower plan, if `best` is one, since the
// fewest blocks lie where the old one has put them.
void take_lower(TrackerState& s, const Plan& best);
Action settle(TrackerState& s);

}  // namespace memo::stages
