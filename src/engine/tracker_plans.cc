// How a plan is taken up, changed for another or for another shape, and left. Hot.
#include <algorithm>

#include "src/engine/tracker_stages.h"

namespace memo::stages {
namespace {

using Why = AtHand::Why;

// Where the call goes on when the plan for it is gone.
Action go_on_without(TrackerState& s, Why why) {
  switch (why) {
    case Why::kBegin:
    case Why::kShape:
      return give(s);
    case Why::kOther:
      return end_step(s);
    case Why::kLateShape:
      return settle(s);
    case Why::kAgain:
      break;
  }
  return finish(s, Ask::kDone);
}

Action unusable(TrackerState& s) {
  const Why why = is_serving(s) ? Why::kOther : Why::kBegin;
  move(s, Event::kUnusable);
  return go_on_without(s, why);
}

// Memory for the plan found, whose step at hand is known; a call that was placed before another
// plan was found is behind it already.
Action open_found(TrackerState& s) {
  if (!is_serving(s)) {
    return open(s, Why::kBegin);
  }
  if (s.at_hand.matched) {
    const Serving& serving = s.serving;
    const Schedule& schedule =
        serving.shapes.plan() != nullptr ? *serving.shapes.schedule() : **serving.best;
    s.serving.cursor = Cursor((serving.cursor.position() + StepIndex{1}) % schedule.end());
  }
  return open(s, Why::kOther);
}

Action take(TrackerState& s, const Answer& answer) {
  s.serving.trial = s.learns && !is_serving(s) ? answer.trial : 0;
  s.serving.plan = answer.plan;
  s.serving.own = false;
  s.serving.strange = answer.strange;
  s.serving.best = answer.best;
  const Schedule& schedule = *answer.plan->made;
  if (schedule.symbolic == nullptr) {
    // The call at hand is the step before the one that comes next.
    s.serving.cursor = Cursor(schedule.before(answer.position, 1));
    return open_found(s);
  }
  if (!s.serving.shapes.afford(schedule.count, s.tally.counters().large_allocations.get())) {
    return unusable(s);
  }
  s.at_hand.shape = {answer.first, answer.position - StepIndex{1}};
  return ask(s, Ask::kPrepare);
}

bool lay_out(TrackerState& s, const Shapes::Start& start) {
  const StepIndex at = s.serving.shapes.lay_out(start, s.terms.slab_room);
  if (at == kNoStep) {
    return false;
  }
  s.serving.cursor = Cursor(at);
  s.tally.counters().shapes.add();
  return true;
}

// Serves from the plan's step at the cursor on.
void begin_plan(TrackerState& s) {
  Serving& serving = s.serving;
  const bool shaped = serving.shapes.plan() != nullptr;
  serving.placer.start(shaped ? serving.shapes.schedule() : serving.best->get(),
                       shaped ? serving.shapes.index() : &serving.best->index(),
                       Cursor(serving.cursor.position()));
  serving.placed = 0;
  serving.first = FirstIteration(serving.strange ? serving.placer.schedule()->count : 0);
}

}  // namespace

// What follows the known plans has answered. While serving it is asked from a call that did not
// match on, until the plan is found again: a program that goes to and fro between shapes is met by
// the other shape's plan as soon as that fits.
Action found(TrackerState& s, const Answer& answer) {
  if (!is_serving(s)) {
    return answer.plan != nullptr ? take(s, answer) : give(s);
  }
  Serving& serving = s.serving;
  const bool first = !serving.following;
  serving.following = answer.plan == nullptr;
  if (answer.plan == nullptr) {
    // At the beginning of an iteration a plan that begins as this one does is believed at once,
    // since a network's first blocks are its largest ones; the plans are followed all the same.
    const bool guess = first && !s.at_hand.matched && serving.shapes.plan() == nullptr &&
                       serving.placer.position() < tuning::kBeginning;
    return guess ? ask(s, Ask::kGuess) : end_step(s);
  }
  s.effects |= kRestartFollower;
  if (answer.plan == serving.plan) {
    s.left[s.left_count++] = answer.plan;  // it is used once
    s.effects |= kRelease;
    return end_step(s);
  }
  s.effects |= serving.tries_own() ? kWithdraw : 0U;
  move(s, Event::kOtherPlan);
  return take(s, answer);
}

Action guessed(TrackerState& s, const Answer& answer) {
  if (answer.plan == nullptr) {
    return end_step(s);
  }
  const StepIndex position = s.serving.placer.position();
  move(s, Event::kOtherPlan);
  s.serving.plan = answer.plan;
  s.serving.own = false;
  s.serving.strange = answer.strange;
  s.serving.best = answer.best;
  s.serving.cursor = Cursor(position);
  s.at_hand.guessed = true;
  return open(s, Why::kOther);
}

Action prepared(TrackerState& s, const Answer& answer) {
  if (!answer.yes || !lay_out(s, s.at_hand.shape)) {
    return unusable(s);
  }
  s.serving.best = answer.best;
  return open_found(s);
}

Action opened(TrackerState& s) {
  Serving& serving = s.serving;
  switch (s.at_hand.why) {
    case Why::kBegin:
      begin_plan(s);
      move(s, Event::kOpened);
      if (serving.trial != 0) {
        s.search.sizes.add(s.at_hand.call.size, s.at_hand.call.alignment_log2);
      }
      return begin_step(s);
    case Why::kOther:
      begin_plan(s);
      serving.following = s.at_hand.guessed;
      move(s, Event::kOpened);
      s.at_hand.again = true;
      return s.at_hand.matched ? end_step(s) : step(s);
    case Why::kShape:
    case Why::kLateShape:
      serving.placer.change(serving.shapes.schedule(), serving.shapes.index(), serving.cursor);
      move(s, Event::kOpened);
      return s.at_hand.why == Why::kShape ? step(s) : settle(s);
    case Why::kAgain:
      move(s, Event::kOpened);
      break;
  }
  return finish(s, Ask::kDone);
}

// Who has to share the pool needs no plan of its own for a loop that has one.
Action refused(TrackerState& s, const Answer& answer) {
  s.search.known.store(answer.busy, std::memory_order_relaxed);
  move(s, Event::kRefused);
  return go_on_without(s, s.at_hand.why);
}

Action change_shape(TrackerState& s, const Shapes::Start& start, Why why) {
  Shapes& shapes = s.serving.shapes;
  if (!shapes.afford(shapes.plan()->count, s.tally.counters().large_allocations.get())) {
    return why == Why::kShape ? step(s) : settle(s);
  }
  if (!lay_out(s, start)) {
    move(s, Event::kUnusable);
    return go_on_without(s, why);
  }
  return open(s, why);
}

// A plan that hardly served was wrong; others are kept, since programs come back. One that was outlived is right where
// it was made.
void lose(TrackerState& s) {
  const Serving& serving = s.serving;
  const std::uint64_t served = serving.placed;
  const bool convinced = served >= tuning::kConvincingRun;
  const bool outlived = serving.first.differs() || serving.placer.health().outlived();
  const bool unfit = outlived || serving.placer.health().unfit();
  const bool tried = lose_trial(s);
  s.tally.counters().diverged.add();
  // What another process has made, and has come here for most of its first iteration, is right: an optimizer's first step
  // makes its state, by calls that no later step has.
  const std::uint64_t iteration = serving.plan->iteration;
  const bool hardly =
      served < (serving.strange ? iteration / 2 : tuning::kTrialIterations * iteration);
  s.effects |= tried || (hardly && !outlived) ? kWithdraw : 0U;
  s.effects |= convinced && !unfit ? kTrust : kDistrust;
  s.effects |= unfit ? kDistrustTwice : 0U;
  // What the new loop needs while it is learned must not come on top, nor what another program's needs.
  s.effects |= convinced || tried || serving.strange ? kPurge : 0U;
  // A stream so uneven must convince; one whose blocks live longer goes on as before, and is to have their lifetimes
  // soon: each plan that is outlived asks for twice as much. What was tried is no evidence against another loop, and
  // another stream's plan is none against this one.
  if (!tried && serving.own) {
    const std::uint64_t uneven = tuning::kConvincingRun / 2;
    const std::uint64_t again = std::max<std::uint64_t>(iteration, s.search.sizes.required());
    const std::uint64_t run = outlived ? std::min(again, uneven) : unfit ? uneven : served;
    s.search.sizes.lock_broke(static_cast<std::uint32_t>(std::min<std::uint64_t>(run, UINT32_MAX)));
  }
  move(s, Event::kLost);
  s.effects &= tried ? ~std::uint32_t{kRestartFollower} : ~0U;
}

bool lose_trial(TrackerState& s) {
  const bool own = s.serving.tries_own();
  s.serving.trial = 0;
  if (!own) {
    return false;
  }
  // Blocks that are resized move in a slab where they did not in the pool, at each trial anew.
  s.search.trials_lost = s.at_hand.call.moved ? tuning::kMaxTrialsLost : s.search.trials_lost + 1;
  s.search.lost_shift = s.serving.plan->iteration;
  s.search.lost_bytes += (*s.serving.best)->height;
  return true;
}

}  // namespace memo::stages
