// Performs what a lane's tracker decides: claims, gives, opens and purges, learns and tells. Hot,
// but for the doors to src/learn. Its owner alone runs it; any thread frees.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "src/base/backoff.h"
#include "src/engine/shared.h"
#include "src/engine/stream_log.h"
#include "src/engine/tracker.h"
#include "src/serve/slabs.h"
#include "src/trace/signature.h"

namespace memo {

struct LearnOptions;
struct Period;

class Hands {
 public:
  void open(Shared* shared, std::uint32_t number, Tracker* tracker);
  [[nodiscard]] std::uint32_t number() const { return number_; }
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

  // The lane holds a slab, and nobody has changed that since its last call.
  [[nodiscard]] bool holds_slab() const { return slab().word() == word_; }
  // The one that it holds, or held last, or else any.
  [[nodiscard]] Slab& slab() const { return *slab_.load(std::memory_order_relaxed); }
  // Gives the memory of the slab that it holds back, and counts that.
  void purge();
  // It holds none from now on, and nothing of it is changed.
  void let_slab_go();
  // The same in the middle of a call that does not go on.
  void lose_slab();
  // The next call finds that it holds none.
  void wake_at_next_call();
  // Nothing is known of the stream any more.
  void forget();

  StreamLog log;
  StackBounds stack;
  std::atomic<std::uint64_t> live{0};   // bytes of the pool's blocks of this lane, whole granules
  std::atomic<double> plan_seconds{0};  // spent on making plans

 private:
  void perform(const Request& request, const Action& action);
  void judge_left(std::uint32_t effects);
  void start();
  void tell(std::uint32_t effects) const;
  Answer answer(const Request& request, const Action& action);
  Answer give(const Request& request);
  Answer open_slab(const Schedule& schedule);
  Answer ask_for_slab(const Schedule& schedule);
  bool take_slab(const SlabWish& wish, Nanos now);
  Answer learn();
  Answer learn_sites();
  using LearnDoor = Plan(const RecursionGuard&, std::span<const Allocation>, const LearnOptions&,
                         Period*) noexcept;
  StoredPlan* make_plan(LearnDoor& door, Period* period);
  void* end(const Request& request, const Action& action);

  static constexpr std::uint64_t kNoWord = UINT64_MAX;  // no slab ever has it

  Shared* shared_ = nullptr;
  Tracker* tracker_ = nullptr;
  std::uint32_t number_ = 0;
  Follower follower_;
  std::atomic<Slab*> slab_{nullptr};
  std::uint64_t word_ = kNoWord;  // by which the lane holds it
  Backoff slab_refusals_;
  bool slabs_in_use_ = false;  // it was refused one since all were in use
  // Ends of iterations until the pool owes nothing of what was alive as the slab was opened.
  std::uint32_t owing_ends_ = 0;
  struct {
    std::uint32_t index = kNotRecorded;  // in the log
    Arena::Block block;                  // of the pool
    bool dirty = false;                  // what it has claimed may hold old bytes
  } call_;                               // the one at hand
};

}  // namespace memo
