// Decides what becomes of each call of one thread's stream. Hot. It takes no memory, no lock and no
// time: it calls the memory behind the stream (src/engine/memory.h) and what is known of streams
// (src/engine/knowledge.h), and the same answers give the same decisions and counters.
//
// The phase lives here and nowhere else. How it changes is the table of tracker.def. Checked by
// valid().
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/loop.h"
#include "src/engine/call_counts.h"
#include "src/engine/confidence.h"
#include "src/engine/demand.h"
#include "src/engine/knowledge.h"
#include "src/engine/memory.h"
#include "src/engine/phase.h"
#include "src/follow/placer.h"
#include "src/follow/repeat.h"
#include "src/follow/shapes.h"

namespace memo {

// Learning and Pooling: whether the stream repeats.
struct Search {
  Demand demand;
  Repeat sizes;
  Repeat sites;                      // of call sites, while sizes do not repeat
  std::atomic<bool> looping{false};  // as `sizes` says; freeing threads read it
  std::atomic<Loop> loop{};          // the latest that was seen; for reports
  std::uint64_t got = 0;             // bytes that the pool had to get
  std::uint32_t calm = 0;            // calls since it last had to get what it had had before
  // A plan fits, and all slabs are in use: nothing is learned meanwhile. Freeing threads read it.
  std::atomic<bool> lacks_slab{false};
  std::uint32_t restarts = 0;  // of a full log
  std::uint32_t deaf = 0;      // calls that are not noted, since many logs were filled in vain
  std::uint32_t symbolic = 0;  // parametric plans made
};

// Ready: a plan waits for the point at which least is alive, so that what learning left and the
// slab do not add up.
struct Waiting {
  std::uint64_t quiet_level = 0;  // live bytes
  std::uint32_t patience = 0;     // calls until beginning anyway
  std::uint32_t begins = 0;       // calls noted before the plan's period
};

// Ready and Serving: the plan. Serving: how it goes.
struct Serving {
  StoredPlan* plan = nullptr;
  const Plan* best = nullptr;  // what `plan` is served from
  Cursor cursor;               // where serving is to begin
  Placer placer;
  Shapes shapes;              // of a parametric plan
  bool seeks_others = false;  // a call did not match: other plans are followed as well
};

// What holds for as long as a tracker lives.
struct TrackerTerms {
  Counters* counters = nullptr;  // what is counted; outlives the tracker
  std::uint64_t slab_room = 0;   // bytes of addresses that a slab may take
  bool keeps_trace = false;      // every call is noted, in whatever phase
  bool common = false;           // calls of many threads: they have blocks of the pool
};

// All that a tracker knows between two calls.
struct TrackerState {
  std::atomic<Phase> phase{Phase::kIdle};
  TrackerTerms terms;
  std::atomic<bool> wants_site{false};  // the next call's stack is worth unwinding
  bool learns = false;                  // there is memory to learn
  std::atomic<bool> tries{false};       // what is served is on trial; for reports
  std::atomic<std::uint8_t> left{0};    // 1 + Evidence of the plan left last; for reports
  bool short_way = false;               // the next call needs its size alone: see Tracker::next()
  bool walks_whole = false;             // the lane has gone through a whole plan, or made one
  CallCounts counts;
  Search search;
  Waiting waiting;
  Serving serving;
  Confidence confidence;  // in the plan
};

// What a call gets: the slab's place, what the pool has given, or nothing; the underlying
// allocator's then.
struct Outcome {
  enum class Kind : std::uint8_t { kNothing, kPlace, kBlock };
  Kind kind = Kind::kNothing;
  bool dirty = true;         // kPlace: it may hold old bytes
  std::uint64_t offset = 0;  // kPlace: bytes from the slab's start
  Given given;               // kBlock
};

class Tracker {
 public:
  // Both outlive the tracker.
  void open(const TrackerTerms& terms, Memory* memory, Knowledge* knowledge);
  // There are histories of up to tuning::kMaxLog tokens for what repeats; they outlive the tracker.
  void begin_histories(GrowingArray<std::uint32_t>* sizes, GrowingArray<std::uint32_t>* sites);

  // An allocation of the stream.
  Outcome called(const Call& call);
  // The host begins an iteration.
  void told();
  // What is no call: kTaken, kWoken, kForked or kLeft. Nothing follows where the phase has no row
  // for it.
  void happened(Event event);
  // The thread ended in the middle of a call, or does not exist in a forked child: nothing is known
  // of any plan, and none is released.
  void abandon();
  // A block of the underlying allocator has grown to `bytes`.
  void grown(std::uint64_t bytes);

  // The same as called() for most calls of a plan that is served, while only the size of a call
  // matters: the step that it is, if that has a place; nullptr, and nothing has changed, where
  // called() is to decide, ...
  [[nodiscard]] const Step* next(std::uint64_t size) {
    return state_.short_way ? state_.serving.placer.next_expected(size) : nullptr;
  }
  // After next(): the slab had the place; it had not.
  void placed(std::uint64_t offset, std::uint64_t size) {
    state_.confidence.note_placed();
    state_.counts.planned(size);
    if (state_.serving.placer.wrapped()) {
      iterated(offset, size);
    }
  }
  [[nodiscard]] Outcome not_placed(const Call& call, const Step& step, Miss miss);

  [[nodiscard]] Phase phase() const { return state_.phase.load(std::memory_order_acquire); }
  // A period is being looked for; not where the latest call fits a plan, and others have all slabs.
  // Any thread.
  [[nodiscard]] bool searching() const {
    const Phase now = phase();
    return (now == Phase::kLearning || now == Phase::kPooling) &&
           !state_.search.lacks_slab.load(std::memory_order_relaxed);
  }
  // Nothing is known of the stream yet, not even that it goes in a loop. Any thread.
  [[nodiscard]] bool knows_nothing() const {
    return phase() == Phase::kLearning && !state_.search.looping.load(std::memory_order_relaxed);
  }
  // The latest loop that was seen while nothing was served, and since a plan was left. Any thread.
  [[nodiscard]] Loop loop() const { return state_.search.loop.load(std::memory_order_relaxed); }
  // What is made of the loop, or of its plan. Any thread.
  [[nodiscard]] StandingWords standing() const;
  // The call stack of the next call is worth unwinding. Any thread.
  [[nodiscard]] bool wants_site() const {
    return state_.wants_site.load(std::memory_order_relaxed);
  }
  [[nodiscard]] const TrackerState& state() const { return state_; }
  // What the slab is to hold.
  [[nodiscard]] const Schedule& wanted() const;
  [[nodiscard]] CallCounts& counts() { return state_.counts; }
  // True if the phase, the plan and what is open agree, between two calls.
  [[nodiscard]] bool valid() const;

 private:
  // What is known of the call at hand on its way.
  struct Way {
    bool noted = false;
    bool added = false;         // its size was added to `search.sizes`,
    bool worth_a_look = false;  // and that said that it may repeat now
    bool served = false;        // a plan was served when it came, with a place for it or not
    bool missed = false;        // it was counted as a fallback
  };
  // Where the plan has the call.
  struct Placing {
    bool matched = false;  // at its first try the call was a step
    bool is_step = false;  // at its latest
    bool wrapped = false;  // which ended an iteration
    Miss miss = Miss::kNone;
    bool dirty = true;
    std::uint64_t offset = 0;
  };

  [[nodiscard]] bool is_serving() const {
    return state_.phase.load(std::memory_order_relaxed) == Phase::kServing;
  }
  [[nodiscard]] bool may_take_short_way() const;
  bool move(Event event, std::uint32_t more = 0, std::uint32_t but = 0);
  bool leave_plan();
  void start();
  void finish();

  Outcome decide(const Call& call);
  void note(const Call& call, Way& way);
  bool hears_again(const Call& call, Way& way);
  void look_at_demand(const Call& call);
  Outcome follow_known(const Call& call, Way way);
  Outcome wait_for_quiet(const Call& call, Way way);
  Outcome give(const Call& call, Way way);
  void count_given(const Call& call, const Given& given, const Way& way);
  void look_at_size(const Call& call, const Way& way);
  void look_at_site(const Call& call, const Way& way);
  void learn();

  Outcome serve(const Call& call, Way way);
  Outcome after_placing(const Call& call, Way way, Placing placing);
  void place(const Call& call, Placing& placing);
  void end_iteration(const Call& call, const Placing& placing);
  void iterated(std::uint64_t offset, std::uint64_t size);
  Outcome answer(const Call& call, Way way, const Placing& placing);

  Known follow(const Call& call);
  bool open();
  bool begin_from(const Call& call);
  bool take_up(const Call& call, const Known& known);
  bool try_others(const Call& call, bool matched);
  bool go_over_to_guess(const Call& call);
  void adopt(const Known& known, std::uint32_t trial);
  bool find_place(const Known& known);
  bool lay_out(const Shapes::Start& start);
  bool change_shape(const Shapes::Start& start);
  [[nodiscard]] Wanted what_to_learn() const;
  void lose(const Call& call, Evidence evidence);

  TrackerState state_;
  Memory* memory_ = nullptr;
  Knowledge* knowledge_ = nullptr;
};

}  // namespace memo
