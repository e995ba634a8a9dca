// Decides what becomes of each call of one thread's stream. Hot. An event goes in, an action comes
// out: what is asked, and what is to be done besides. Whoever performs it (a lane, `analyze`, a
// test) answers, until the action ends the call. It takes no memory, no lock and no time, and knows
// of the process what it is told: the same events and answers give the same actions and counters.
//
//   lane        called(call) ->             <- claim the place at 4 KiB
//               answered(granted) ->        <- serve it: the call is over
//
// The phase lives here and nowhere else. How it changes is the table of tracker.def. Checked by
// valid().
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/engine/tracker_state.h"

namespace memo {

class Tracker {
 public:
  void open(const TrackerTerms& terms);
  // There are histories of up to tuning::kMaxLog tokens for what repeats; they outlive the tracker.
  void begin_histories(GrowingArray<std::uint32_t>* sizes, GrowingArray<std::uint32_t>* sites);

  // An allocation of the stream.
  Action called(const Call& call);
  // What came of the latest action, which has asked.
  Action answered(const Answer& answer);
  // The host begins an iteration; it has told of `marks` since the log began.
  Action told(std::size_t marks);
  // What is no call and no answer: kTaken, kFollows, kWoken, kForked, kLeft, kOrphaned or
  // kAbandoned. Nothing follows where the phase has no row for it.
  Action happened(Event event);
  // A block of the underlying allocator has grown to `bytes`.
  void grown(std::uint64_t bytes);

  // The same as called() and its answer for most calls of a plan that is served, while only the
  // size of a call matters: the step that it is, if that has a place; nullptr, and nothing has
  // changed, where called() is to decide, ...
  [[nodiscard]] const Step* next(std::uint64_t size) {
    return state_.glides ? state_.serving.placer.next_expected(size) : nullptr;
  }
  // ... and whether the slab had the place, which is to be done as called() would: true if the
  // step ended an iteration, and iterated() is to follow with what Ask::kImproved answers.
  bool placed(std::uint64_t size) {
    ++state_.serving.placed;
    state_.tally.planned(size);
    return state_.serving.placer.wrapped();
  }
  [[nodiscard]] Action iterated(const Plan& best);
  [[nodiscard]] Action not_placed(const Call& call, const Step& step, Miss miss);

  [[nodiscard]] Phase phase() const { return state_.phase.load(std::memory_order_acquire); }
  // A period is being looked for; not where the latest call fits a plan, and others have all slabs. Any thread.
  [[nodiscard]] bool searching() const {
    const Phase now = phase();
    return (now == Phase::kLearning || now == Phase::kPooling) &&
           !state_.search.known.load(std::memory_order_relaxed);
  }
  // Nothing is known of the stream yet, not even that it goes in a loop. Any thread.
  [[nodiscard]] bool knows_nothing() const {
    return phase() == Phase::kLearning && !state_.search.looping.load(std::memory_order_relaxed);
  }
  // The latest loop that was seen while nothing was served. Any thread.
  [[nodiscard]] Loop loop() const { return state_.search.loop.load(std::memory_order_relaxed); }
  // The call stack of the next call is worth unwinding. Any thread.
  [[nodiscard]] bool wants_site() const {
    return state_.wants_site.load(std::memory_order_relaxed);
  }
  // For whoever performs actions, and for tests.
  [[nodiscard]] const TrackerState& state() const { return state_; }
  // Of the parametric plan that is being prepared: room for its shapes.
  bool make_room(const SymbolicPlan& plan) { return state_.serving.shapes.open(plan); }
  // What the slab is to hold.
  [[nodiscard]] const Schedule& wanted() const;
  [[nodiscard]] Tally& tally() { return state_.tally; }
  // True if the phase, the plan and what is open agree, between two calls.
  [[nodiscard]] bool valid() const;

 private:
  TrackerState state_;
};

}  // namespace memo
