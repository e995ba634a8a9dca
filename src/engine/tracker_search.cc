// The stages of a call that no plan places: it is noted, known plans are followed, the pool gives
// the block, and it is looked whether the stream repeats. Hot.
#include "src/engine/tracker_stages.h"

namespace memo::stages {
namespace {

bool searching(const TrackerState& s) {
  const Phase now = s.phase.load(std::memory_order_relaxed);
  return now == Phase::kLearning || now == Phase::kPooling;
}

// Whether call sites repeat, while sizes do not.
Action look_at_site(TrackerState& s) {
  const Call& call = s.at_hand.call;
  if (s.phase.load(std::memory_order_relaxed) == Phase::kPooling && s.at_hand.noted &&
      call.site != 0 && s.search.demand.wants_sites() &&
      s.search.sites.add(call.site, call.alignment_log2) &&
      s.search.symbolic < tuning::kMaxSymbolic) {
    return ask(s, Ask::kLearnSites);
  }
  return finish(s, Ask::kDone);
}

// Whether sizes repeat, after a call that was noted and not served.
Action look_at_size(TrackerState& s) {
  const Call& call = s.at_hand.call;
  if (s.at_hand.noted && !s.at_hand.serving) {
    const bool worth_a_look =
        s.search.added ? s.search.worth_a_look : s.search.sizes.add(call.size, call.alignment_log2);
    const bool looping = s.search.sizes.looping();
    const bool before = s.search.looping.load(std::memory_order_relaxed);
    s.effects |= looping && !before ? kAllowLoopSlack : 0U;
    s.search.looping.store(looping, std::memory_order_relaxed);
    if (looping) {
      s.search.loop.store({s.search.sizes.shift(), s.search.sizes.matched()},
                          std::memory_order_relaxed);
    }
    if (worth_a_look && searching(s) && !s.search.known.load(std::memory_order_relaxed)) {
      return ask(s, Ask::kLearn);
    }
  }
  return look_at_site(s);
}

}  // namespace

void note(TrackerState& s) {
  if (s.at_hand.call.log_full && !s.terms.keeps_trace) {
    s.tally.counters().recorder_full.add();
    s.effects |= kRestartLog;
    ++s.search.restarts;
  }
  s.effects |= kNote;
  s.at_hand.noted = true;
}

Action look(TrackerState& s) {
  note(s);
  const Demand::Look seen = s.search.demand.look(s.at_hand.call.peak);
  if (seen != Demand::Look::kNothing) {
    move(s, seen == Demand::Look::kNewLoop ? Event::kNewLoop : Event::kDemandKnown);
  }
  s.effects |= s.search.demand.unordered() ? kAllowSlack : 0U;
  return ask(s, Ask::kFollow);
}

// Between the plan and its first block: the call must be the step expected, and the time a quiet
// one.
Action wait_for_quiet(TrackerState& s) {
  const Schedule& schedule = *s.serving.plan->made;
  const Call& call = s.at_hand.call;
  if (!s.serving.cursor.expects(schedule, call.size)) {
    lose_trial(s);
    move(s, Event::kMismatch);
    s.search.sizes.lock_broke(0);
    return give(s);
  }
  if (call.live <= s.waiting.quiet_level || --s.waiting.patience == 0) {
    return open(s, AtHand::Why::kBegin);
  }
  s.serving.cursor.follow(schedule, call.size);
  return give(s);
}

Action give(TrackerState& s) {
  return ask(s, Ask::kGive);
}

Action given(TrackerState& s, const Answer& answer) {
  const std::uint64_t size = s.at_hand.call.size;
  Counters& counters = s.tally.counters();
  if (!answer.yes) {
    (answer.busy ? counters.fallback_busy : counters.fallback_limit).add();
    s.tally.other(size);
    return look_at_size(s);
  }
  counters.pooled_allocations.add();
  counters.pooled_bytes.add(size);
  const bool pooling = s.phase.load(std::memory_order_relaxed) == Phase::kPooling;
  if (pooling && answer.at_hand) {
    s.tally.begin_pooling();
  }
  s.search.got += answer.lacks;
  s.search.calm = answer.again != 0 ? 0 : s.search.calm + 1;
  answer.at_hand ? s.tally.at_hand(size) : s.tally.other(size);
  if (pooling) {
    s.search.demand.judge(size, answer.at_hand);
  }
  if (pooling && !answer.at_hand) {
    s.tally.fallback(size, &Counters::fallback_grown);
  } else if (!answer.at_hand && !s.at_hand.missed) {
    counters.fallback_learning.add();
  }
  return look_at_size(s);
}

Action learned(TrackerState& s, const Answer& answer) {
  if (answer.plan != nullptr) {
    s.tally.counters().plans.add();
    s.serving.plan = answer.plan;
    s.serving.own = true;
    s.serving.strange = false;
    s.serving.best = answer.best;
    s.serving.cursor = Cursor(answer.position);
    s.serving.trial = answer.trial;
    s.waiting = {answer.quiet_level, answer.length + kContext, answer.begins};
    s.walks_whole = true;
    move(s, Event::kPlanMade);
  }
  return s.at_hand.told ? finish(s, Ask::kDone) : look_at_site(s);
}

// The plan is taken up like any other known one: when some calls have fitted it.
Action sites_learned(TrackerState& s, const Answer& answer) {
  if (answer.length != 0) {
    s.tally.counters().plans.add();
    s.tally.counters().symbolic_calls.add(answer.length);
    ++s.search.symbolic;
    s.search.sites.lock_broke(2 * answer.length);  // four more iterations before another is made
  }
  return finish(s, Ask::kDone);
}

}  // namespace memo::stages
