// Performs what a lane's tracker decides: claims, gives, opens and purges, learns and tells. Hot,
// but for the doors to src/learn. Its owner alone runs it; any thread frees.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "src/engine/shared.h"
#include "src/engine/slab_wait.h"
#include "src/engine/stream_log.h"
#include "src/engine/tracker.h"
#include "src/serve/slab.h"
#include "src/trace/signature.h"

namespace memo {

struct LearnOptions;
struct Period;

// What others are told of a lane's plans.
struct PlanTold {
  std::atomic<double> seconds{0};            // spent on making them
  std::atomic<std::uint64_t> opened_for{0};  // generation of the one that the slab got memory for
};

class Hands {
 public:
  void open(Shared* shared, std::uint32_t number, Space* space, Tracker* tracker);
  [[nodiscard]] Shared& shared() const { return *shared_; }

  // What the tracker is told of a call.
  [[nodiscard]] Call call_of(const Request& request, std::uint64_t site) const;
  // Performs the action and those that follow from it. The call's block, or nullptr: the next
  // allocator's.
  void* run(Action action, const Request& request = {});
  // Notes who is at work at the end of an iteration, whose next call has claimed [offset, offset + bytes); what Ask::kImproved
  // answers.
  const Plan& end_iteration(std::uint64_t offset, std::uint64_t bytes);
  // A call gets the place that it has claimed.
  void* serve(const Request& request, std::uint64_t offset, bool dirty);
  // Memory for learning; false where the system refuses it.
  bool prepare_to_learn();
  // Gives the slab's memory back, and counts that.
  void purge();
  // Nothing is known of the stream any more.
  void forget();

  Slab slab;
  StreamLog log;
  StackBounds stack;
  std::atomic<std::uint64_t> live{0};   // bytes of the pool's blocks of this lane, whole granules
  std::atomic<std::uint64_t> bound{0};  // greatest of the plans served from, bytes
  PlanTold told;

 private:
  void perform(const Request& request, const Action& action);
  void judge_left(std::uint32_t effects);
  void start();
  void tell(std::uint32_t effects) const;
  Answer answer(const Request& request, const Action& action);
  Answer give(const Request& request);
  Answer open_slab(const Schedule& schedule);
  Answer learn();
  Answer learn_sites();
  using LearnDoor = Plan(const RecursionGuard&, std::span<const Allocation>, const LearnOptions&,
                         Period*) noexcept;
  StoredPlan* make_plan(LearnDoor& door, Period* period);
  void* end(const Request& request, const Action& action);

  Shared* shared_ = nullptr;
  Tracker* tracker_ = nullptr;
  std::uint32_t number_ = 0;
  Follower follower_;
  SlabWait slab_wait_;
  std::uint32_t owing_ends_ =
      0;  // of iterations, until the pool owes nothing of what was alive as the slab was opened
  struct {
    std::uint32_t index = kNotRecorded;  // in the log
    Arena::Block block;                  // of the pool
    bool dirty = false;                  // what it has claimed may hold old bytes
  } call_;                               // the one at hand
};

}  // namespace memo
