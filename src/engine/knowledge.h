// What is known of a stream and of others, as its tracker (src/engine/tracker.h) asks for it: the
// log of calls, what is learned of it, and the plans that fit. A lane's is
// src/engine/stream_knowledge.h; tests fake it. Hot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/engine/follower.h"
#include "src/engine/memory.h"
#include "src/engine/phase.h"
#include "src/follow/repeat.h"

namespace memo {

// A plan that fits the stream, acquired for the tracker; or none.
using Known = Follower::Found;

// A plan that was made of the stream, acquired for the tracker; or none.
struct Learned {
  StoredPlan* plan = nullptr;
  StepIndex position;             // of the call that comes next
  std::uint64_t quiet_level = 0;  // live bytes at which to begin
  std::uint32_t length = 0;       // calls of the period
  std::uint32_t begins = 0;       // calls noted before the period
  std::uint32_t trial = 0;        // calls that it is to serve before it is believed
};
// What is asked of it.
struct Wanted {
  const Repeat& sizes;
  std::uint32_t trial_copies = 0;  // in which a loop must have come to be tried; 0: none is
  std::uint64_t trial_bytes = 0;   // of the slab of such a loop at most
};

// What is made of a plan that the stream has left; a sum.
enum Verdict : std::uint32_t {
  kWithdrawn = 1U << 0,  // nobody follows it any more
  kFailed = 1U << 1,     // the calls are others now
  kUnfit = 1U << 2,      // it is not this stream's
};

enum class Evidence : std::uint8_t;  // src/engine/confidence.h

class Knowledge {
 public:
  // There is memory to learn; asked seldom where it was refused.
  virtual bool can_learn() = 0;
  // The call is noted. False: the log was full, and now begins with it.
  virtual bool note(const Call& call) = 0;
  virtual void forget_calls() = 0;
  // Serving begins: what learning held goes.
  virtual void planned() = 0;
  // The host begins an iteration: how often it has told of one since the log began.
  virtual std::size_t mark() = 0;
  // A plan of the period of sizes, and one of the period of call sites: how many calls it has, 0 if
  // there is none. That one is followed like any other.
  virtual Learned learn(const Wanted& wanted) = 0;
  virtual std::uint32_t learn_sites(const Wanted& wanted) = 0;

  // A known plan that fits, the call among others; `serving` is preferred, but on trial: see
  // Follower::find().
  virtual Known follow(const Call& call, const StoredPlan* serving, std::uint64_t tried) = 0;
  // The plans are followed from here on.
  virtual void follow_anew() = 0;
  // A plan that begins as `schedule` does up to the position, and then with the call.
  virtual Known guess(const Call& call, const Schedule& schedule, StepIndex position) = 0;
  // True if the parametric plan can be laid out from now on.
  virtual bool complete(StoredPlan& plan) = 0;
  // The lane uses the plan no more.
  virtual void leave(StoredPlan& plan, std::uint32_t verdict) = 0;

  // For messages: the phase has changed; a plan is left after so many placed calls; a call was not
  // placed near the step.
  virtual void tell_phase(Phase phase) = 0;
  virtual void tell_lost(std::uint64_t placed, Evidence why) = 0;
  virtual void tell_miss(const Call& call, Miss miss, StepIndex near) = 0;

 protected:
  ~Knowledge() = default;
};

}  // namespace memo
