// What a tracker (src/engine/tracker.h) is told, what it asks and has done, and what it knows,
// phase by phase. Hot; plain values, no memory behind them but that of plans.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/loop.h"
#include "src/engine/demand.h"
#include "src/engine/plan_store.h"
#include "src/engine/tally.h"
#include "src/follow/first_iteration.h"
#include "src/follow/placer.h"
#include "src/follow/repeat.h"
#include "src/follow/shapes.h"

namespace memo {

enum class Phase : std::uint8_t { kIdle, kLearning, kReady, kServing, kPooling };
inline constexpr std::uint32_t kPhases = 5;
const char* name_of(Phase phase);

// What moves a lane from a phase to the next: src/engine/tracker.def.
enum class Event : std::uint8_t {
  kTaken,
  kFollows,
  kMemory,
  kNewLoop,
  kDemandKnown,
  kPlanMade,
  kMismatch,
  kOpened,
  kRefused,
  kUnusable,
  kOtherPlan,
  kLost,
  kWoken,
  kForked,
  kLeft,
  kOrphaned,
  kAbandoned,
};
inline constexpr std::uint32_t kEvents = 17;

// What is to be done besides, in this order, before the question is answered.
enum Effect : std::uint32_t {
  kRestartLog = 1U << 0,       // forget the calls noted so far
  kNote = 1U << 1,             // note the call in the log
  kMark = 1U << 2,             // note a told iteration there
  kAllowSlack = 1U << 4,       // the pool may keep more than its peak
  kWithdraw = 1U << 5,         // nobody follows the plan that is left any more
  kRestartFollower = 1U << 6,  // known plans are followed from here on
  kPartOnly = 1U << 7,         // the plan that is left was made of a part of the loop
  kTrust = 1U << 8,            // the plan that is left has served for long
  kDistrust = 1U << 9,         // it has failed
  kDistrustTwice = 1U << 10,   // it is another program's
  kRelease = 1U << 11,         // the lane uses the plans that are left no more
  kWalked = 1U << 12,          // all of the plan has come in order
  kPurge = 1U << 13,           // the slab's memory goes
  kLower = 1U << 14,           // the slab's memory above wanted() goes
  kStarted = 1U << 15,         // serving begins: what learning held goes
  kTellPhase = 1U << 16,       // the phase has changed
  kTellLost = 1U << 17,        // the program has
  kForget = 1U << 18,          // of the tracker itself: nothing is known of any plan
  kEvade = 1U << 19,           // the slab goes on above the blocks that stay in it
  kAllowLoopSlack = 1U << 20,  // the pool may keep some more than its peak, for a loop
};

// What is asked, whose answer decides how the call goes on; the last three end it.
enum class Ask : std::uint8_t {
  kClaim,       // the slab's place at `offset`
  kGive,        // a block of the pool
  kFollow,      // does a known plan fit? one that is served from is preferred
  kGuess,       // does one begin as the plan has, up to its position, and then with the call?
  kPrepare,     // can the parametric plan found be laid out?
  kOpenSlab,    // memory for wanted()
  kImproved,    // which plan is the best of this one's by now?
  kLearn,       // a plan of the stream's period
  kLearnSites,  // one of its call sites; followed like any other, if there is one
  kMemory,      // memory to learn
  kServe,       // the call gets the place claimed
  kDone,        // the call gets what the pool gave; or the event was no call
  kPass,        // the call is the next allocator's
};
constexpr bool ends(Ask ask) {
  return ask >= Ask::kServe;
}

struct Action {
  Ask ask = Ask::kDone;
  std::uint32_t effects = 0;
  std::uint64_t offset = 0;  // kClaim, kServe: bytes from the slab's start
};
// Comes back in registers. From memory a served pair of 1 MiB took 66 ns instead of 56: what two stores have written was
// loaded as one.
static_assert(sizeof(Action) <= 16);

// A call of the stream, and what the process is like just now.
struct Call {
  std::uint64_t size = 0;  // bytes
  std::uint8_t alignment_log2 = 0;
  std::uint64_t site = 0;  // of the call stack, 0 if unknown
  std::uint64_t live = 0;  // bytes of the lane's blocks in the pool
  std::uint64_t peak = 0;  // bytes of the pool in use at once, at most so far
  bool log_full = false;   // the log has no room for the call
  bool moved = false;      // a realloc that found no room in place
};

struct Answer {
  bool yes = false;  // granted, there is memory, ...; kClaim: a block begins at the earlier offset
  Miss miss = Miss::kNone;  // kClaim: why not
  bool at_hand = false;     // kGive: all of the block had memory already
  // kGive: bytes of the block that had no memory, and those of them that the pool has had before.
  std::uint64_t lacks = 0;
  std::uint64_t again = 0;
  // kGive: there is no block since others are at the pool; kOpenSlab: no slab since enough others are at work.
  bool busy = false;
  bool strange = false;  // kFollow, kGuess: no iteration of the fixed plan has come in this process
  StoredPlan* plan = nullptr;     // kFollow, kGuess, kLearn: acquired for the tracker
  const Plan* best = nullptr;     // the same, kPrepare and kImproved: what to serve it from
  StepIndex position = {};        // kFollow: the step that comes next; kLearn: the next call's
  std::uint64_t first = 0;        // kFollow: of a parametric plan, the first size at hand
  std::uint64_t quiet_level = 0;  // kLearn: live bytes at which to begin
  std::uint32_t length = 0;       // kLearn, kLearnSites: calls of the period, 0 if none
  std::uint32_t begins = 0;       // kLearn: calls noted before the period
  std::uint32_t trial = 0;        // kLearn, kFollow: calls that the plan is to serve on trial
};

// Learning and Pooling: whether the stream repeats.
struct Search {
  Demand demand;
  Repeat sizes;
  Repeat sites;                      // of call sites, while sizes do not repeat
  std::atomic<bool> looping{false};  // as `sizes` says; read by whoever frees
  std::atomic<Loop> loop{};          // the latest that was seen; for reports
  std::uint64_t got = 0;             // bytes that the pool had to get
  std::uint32_t calm = 0;            // calls since it last had to get what it had had before
  bool added = false;                // the call at hand is in `sizes` already,
  bool worth_a_look = false;         // which says so since
  // A plan fits the call at hand, and no slab is to be had for any; read by whoever frees.
  std::atomic<bool> known{false};
  std::uint32_t restarts = 0;     // of a full log
  std::uint32_t symbolic = 0;     // parametric plans made
  std::uint32_t trials_lost = 0;  // plans that were tried and wrong
  std::uint32_t lost_shift = 0;   // calls of the latest of those
  std::uint64_t lost_bytes = 0;   // of the slabs of all of those
  // In how many copies a loop must have come to be tried; 0: none is.
  [[nodiscard]] std::uint32_t trial_copies() const {
    if (trials_lost >= tuning::kMaxTrialsLost) {
      return 0;
    }
    const std::uint32_t shifts = sizes.shifts_to_try();
    return sizes.shift() == lost_shift ? shifts << trials_lost : shifts;
  }
  // How tall a slab may be that is taken on trial. If the pool had to get memory for the loop's latest
  // copy, as tall as all that it has got; less what trials have cost that were lost: a slab, and as much
  // that the pool had given for it. So all of them together never cost more than the pool has.
  [[nodiscard]] std::uint64_t trial_bytes() const {
    const std::uint64_t most = std::max(tuning::kTrialBytes, calm < sizes.shift() ? got : 0);
    return most - std::min(most, 2 * lost_bytes);
  }
};

// Ready: a plan waits for the point at which least is alive, so that what learning left and the
// slab do not add up.
struct Waiting {
  std::uint64_t quiet_level = 0;  // live bytes
  std::uint32_t patience = 0;     // calls until beginning anyway
  std::uint32_t begins = 0;       // calls noted before the plan's period
};

// Ready and Serving: the plan. Serving: how it goes.
// What serving a plan of fixed sizes has shown since it was taken up.
struct Rounds {
  bool walked = false;         // it has been told that all of the plan has come in order
  bool evaded = false;         // the slab has gone above the blocks that stay in it
  std::uint32_t crowded = 0;   // iterations in a row in which such blocks were in the way of many
  std::uint64_t occupied = 0;  // bytes of this iteration that they were in the way of
};

struct Serving {
  StoredPlan* plan = nullptr;
  const Plan* best = nullptr;  // what `plan` is served from
  Cursor cursor;               // where serving is to begin
  Placer placer;
  Shapes shapes;             // of a parametric plan
  std::uint64_t placed = 0;  // calls placed since the plan was taken up
  bool following = false;    // a call did not match: other plans are followed as well
  bool own = false;          // the plan was made of this stream, and not found in the store
  bool strange = false;      // no iteration of the plan has come in this process yet
  FirstIteration first;      // of a strange plan
  Rounds rounds;
  // Calls that the plan is to place before it is believed; 0: it is. Till then calls are noted as
  // if there were no plan, so that a wrong one costs no evidence. One that was found is wrong for this
  // stream alone.
  std::uint32_t trial = 0;

  [[nodiscard]] bool tries_own() const { return trial != 0 && own; }
};

// The call at hand, between a question and its answer.
struct AtHand {
  Call call;
  Ask asked = Ask::kDone;
  // What memory was asked for: to begin with a plan, to go over to another, for a shape that
  // begins with the call or has begun before it, or for what was served from before.
  enum class Why : std::uint8_t { kBegin, kOther, kShape, kLateShape, kAgain };
  Why why = Why::kBegin;
  bool noted = false;
  bool serving = false;  // the call came to be served, or to a fallback
  bool told = false;     // no call: the host begins an iteration
  bool matched = false;  // at its first try the call was a step
  bool again = false;    // it is tried again, in another plan
  bool wrapped = false;
  bool guessed = false;  // that plan was believed at the beginning of its iteration
  bool missed = false;   // it was counted as a fallback
  Miss miss = Miss::kNone;
  std::uint64_t offset = 0;
  std::uint64_t earlier = kUnplanned;  // kClaim asks besides whether a block begins at this offset
  Shapes::Start shape;                 // kPrepare: the iteration to lay out
};

struct TrackerState;

// What a tracker was told, and what it decided: for tests, which play it again.
struct TapeEntry {
  enum class Kind : std::uint8_t { kHistories, kCalled, kAnswered, kTold, kHappened, kGrown };
  Kind kind = Kind::kCalled;
  Call call{};                  // kCalled
  Answer answer{};              // kAnswered
  Event event = Event::kTaken;  // kHappened
  std::uint64_t number = 0;     // kTold: marks; kGrown: bytes
  Action action{};              // kCalled, kAnswered, kTold, kHappened
};
using Tape = void (*)(const TrackerState& tracker, const TapeEntry& entry);

// What holds for as long as a tracker lives.
struct TrackerTerms {
  Counters* counters = nullptr;  // what is counted; outlives the tracker
  std::uint64_t slab_room = 0;   // bytes of addresses that a slab may take
  bool keeps_trace = false;      // every call is noted, in whatever phase
  bool common = false;           // calls of many threads: they have blocks of the pool
  Tape tape = nullptr;           // is told of each event, all of which then go the long way
};

// All that a tracker knows. The stages of a call (tracker_stages.h) are functions of it.
struct TrackerState {
  std::atomic<Phase> phase{Phase::kIdle};
  TrackerTerms terms;
  std::atomic<bool> wants_site{false};  // the next call's stack is worth unwinding
  bool learns = false;                  // there is memory to learn
  bool glides = false;                  // the next call needs its size alone: see Tracker::next()
  std::uint32_t effects = 0;            // of the action at hand
  std::uint32_t left_count = 0;
  StoredPlan* left[2] = {};  // plans that the lane uses no more
  bool walks_whole = false;  // the lane has gone through a whole plan, or made one
  Tally tally;
  Search search;
  Waiting waiting;
  Serving serving;
  AtHand at_hand;
};

}  // namespace memo
