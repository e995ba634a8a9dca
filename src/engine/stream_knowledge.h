// What a lane knows: the log of its stream, and where it is in the plans of the process. Hot, but
// for the doors to src/learn. Its thread alone calls it; any thread enters a death in the log.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "src/engine/follower.h"
#include "src/engine/knowledge.h"
#include "src/engine/shared.h"
#include "src/engine/stream_log.h"
#include "src/engine/tracker.h"

namespace memo {

struct LearnOptions;
struct Period;

// For a call that no plan places, the latest of `window`: the host adds the plans that have it, and
// now and then looks whether there are new ones.
void fetch_plans(const EngineHost& host, const CallWindow& window);

class StreamKnowledge final : public Knowledge {
 public:
  // The tracker gets the histories as soon as there is memory for them.
  void open(Shared* shared, std::uint32_t number, Tracker* tracker);

  bool can_learn() override;
  bool note(const Call& call) override;
  void forget_calls() override;
  void planned() override;
  std::size_t mark() override;
  Learned learn(const Wanted& wanted) override;
  std::uint32_t learn_sites(const Wanted& wanted) override;
  Known follow(const Call& call, const StoredPlan* serving, std::uint64_t tried) override;
  void follow_anew() override;
  Known guess(const Call& call, const Schedule& schedule, StepIndex position) override;
  bool complete(StoredPlan& plan) override;
  void leave(StoredPlan& plan, std::uint32_t verdict) override;
  void tell_phase(Phase phase) override;
  void tell_lost(std::uint64_t placed, Evidence why) override;
  void tell_miss(const Call& call, Miss miss, StepIndex near) override;

  // The call that was noted last has got this block of the space, or none.
  void bind(const void* start, const Space* space);
  // Nothing is known of the stream any more.
  void forget();
  // After forget(), where the thread ended in the middle of a call.
  void restart_histories();

  StreamLog log;
  std::atomic<double> plan_seconds{0};  // spent on making plans

 private:
  using LearnDoor = Plan(const RecursionGuard&, std::span<const Allocation>, const LearnOptions&,
                         Period*) noexcept;
  StoredPlan* make_plan(LearnDoor& door, const Wanted& wanted, Period* period);

  Shared* shared_ = nullptr;
  std::uint32_t number_ = 0;
  Tracker* tracker_ = nullptr;
  Follower follower_;
  std::uint32_t noted_ = kNotRecorded;  // the call at hand, in the log
};

}  // namespace memo
