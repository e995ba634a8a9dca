// The stages of a call while a plan is served. Hot.
#include "src/engine/miss.h"
#include "src/engine/tracker_stages.h"

namespace memo::stages {
namespace {

using Why = AtHand::Why;

// After the call's iteration is dealt with: whether another shape has begun before the call.
Action find_shape(TrackerState& s) {
  Shapes::Start start;
  if (s.serving.shapes.plan() != nullptr &&
      s.serving.shapes.find(s.at_hand.call.size, s.at_hand.matched, start)) {
    return change_shape(s, start, Why::kLateShape);
  }
  return settle(s);
}

}  // namespace

Action begin_step(TrackerState& s) {
  s.at_hand.serving = true;
  if (is_crowded(s)) {
    s.serving.rounds.evaded = true;
    s.effects |= kEvade;
    s.tally.counters().evaded.add();
  }
  if (s.serving.first.differs()) {
    lose(s);
    return give(s);
  }
  const std::uint64_t size = s.at_hand.call.size;
  if (const SymbolicPlan* plan = s.serving.shapes.plan(); plan != nullptr) {
    if (s.learns && s.search.sizes.add(size, 0) && s.search.sizes.shift() > plan->count) {
      // The sizes repeat after all, over more calls than the plan's: it was made of a part.
      s.search.symbolic = tuning::kMaxSymbolic;
      s.effects |= kPartOnly;
      lose(s);
      return give(s);
    }
    if (s.serving.shapes.begins_another(s.serving.placer.position(), size)) {
      return change_shape(s, {size, StepIndex{0}}, Why::kShape);
    }
  }
  return step(s);
}

Action step(TrackerState& s) {
  Placer& placer = s.serving.placer;
  const Step* step = placer.next(s.at_hand.call.size);
  if (!s.at_hand.again) {
    s.at_hand.matched = step != nullptr;
  }
  s.at_hand.wrapped = step != nullptr && placer.wrapped();
  if (step == nullptr) {
    return claimed(s, placer.why_no_step());
  }
  if (step->offset == kUnplanned) {
    return claimed(s, Miss::kLeftOut);
  }
  s.at_hand.offset = step->offset;
  s.at_hand.earlier = s.serving.first.alive_at(*placer.schedule(), placer.position());
  return ask(s, Ask::kClaim, step->offset);
}

Action claimed(TrackerState& s, Miss miss) {
  s.at_hand.miss = miss;
  // A plan that is known fits better than one on trial.
  if (!s.at_hand.again && (!s.at_hand.matched || s.serving.following || s.serving.tries_own())) {
    return ask(s, Ask::kFollow);
  }
  return end_step(s);
}

// Without memory for another plan or shape the lane has none; what was claimed is served all the
// same.
Action end_step(TrackerState& s) {
  if (!is_serving(s) || !s.at_hand.wrapped) {
    return find_shape(s);
  }
  if (s.serving.shapes.plan() != nullptr) {
    s.walks_whole = true;
    s.tally.counters().iterations.add();
    return find_shape(s);
  }
  if (s.serving.trial != 0 && s.serving.placed >= s.serving.trial) {
    s.serving.trial = 0;
    s.search.trials_lost = s.serving.own ? 0 : s.search.trials_lost;
    s.effects |= kStarted;
  }
  count_iteration(s);
  return ask(s, Ask::kImproved);
}

void count_iteration(TrackerState& s) {
  const Serving& serving = s.serving;
  Rounds& rounds = s.serving.rounds;
  s.walks_whole = true;
  s.tally.counters().iterations.add(serving.placer.schedule()->count / serving.plan->iteration);
  if (!rounds.walked && serving.placer.walked_through()) {
    rounds.walked = true;
    s.serving.strange = false;
    s.effects |= kWalked;
  }
  const bool many = rounds.occupied * tuning::kCrowdedShare > serving.placer.schedule()->height;
  rounds.crowded = many ? rounds.crowded + 1 : 0;
  rounds.occupied = 0;
}

Action improved(TrackerState& s, const Plan& best) {
  take_lower(s, best);
  return find_shape(s);
}

void take_lower(TrackerState& s, const Plan& best) {
  if (best.get() != s.serving.placer.schedule()) [[unlikely]] {
    s.serving.best = &best;
    s.serving.placer.start(best.get(), &best.index(), Cursor());
    s.effects |= kLower;
    s.tally.counters().lowered.add();
  }
}

Action settle(TrackerState& s) {
  const std::uint64_t size = s.at_hand.call.size;
  s.serving.first.note(s.at_hand.miss);
  if (s.at_hand.miss == Miss::kNone) {
    s.tally.planned(size);
    ++s.serving.placed;
    return finish(s, Ask::kServe, s.at_hand.offset);
  }
  if (is_serving(s) && s.serving.tries_own() && s.at_hand.miss != Miss::kLeftOut &&
      s.serving.plan->iteration < tuning::kLongLoop) {
    // Layers are most of a network's calls: a plan on trial that misses one is a part's.
    lose(s);
    return give(s);
  }
  if (is_serving(s)) {
    s.at_hand.missed = true;
    s.tally.fallback(size, reason_of(s.at_hand.miss).counter);
    if (s.at_hand.miss == Miss::kOccupied) {
      s.serving.rounds.occupied += size;
      s.serving.placer.note_in_the_way(size);
    }
    const Health& health = s.serving.placer.health();
    if (health.lost() ||
        (s.serving.strange && health.misses_in_row() >= tuning::kMaxStrangeMisses)) {
      lose(s);
    }
  }
  return give(s);
}

}  // namespace memo::stages
