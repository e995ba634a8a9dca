// How the lanes are set up, and how a thread comes by its lane: at its first large call, or later, where there was
// none. Hot.
#include "src/engine/lanes.h"

#include <algorithm>
#include <bit>
#include <new>

#include "src/base/bits.h"
#include "src/base/interrupts.h"
#include "src/base/os.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// Reserves the region, at most so many bytes: a space for each of the pool's arenas, `pools`, and one for each lane's slab,
// each as large as physical memory where address space allows. Where it does not, there are fewer lanes
// first. How many, or 0.
std::uint64_t reserve(Region& region, Space* spaces, std::uint64_t pools, std::uint64_t lanes,
                      std::uint64_t most, bool bare) {
  for (;; lanes /= 2) {
    const std::uint64_t space =
        std::min(std::bit_ceil(os::physical_memory()),
                 std::bit_floor(std::max<std::uint64_t>(most / (lanes + pools), 1)));
    const bool few = lanes <= tuning::kFewLanes;
    if (region.reserve(spaces, pools, lanes + pools, space, few ? tuning::kMinSpace : space,
                       bare)) {
      return lanes;
    }
    if (few) {
      return 0;
    }
  }
}

}  // namespace

void Lanes::configure(const Options& options, const EngineHost& host) {
  options_ = &options;
  host_ = host;
}

bool Lanes::open() {
  const std::uint64_t left = os::address_space_left();
  const bool limited = left != UINT64_MAX;
  const std::uint64_t lanes = limited ? 2 : tuning::kMaxLanes;
  const std::uint64_t most = limited ? left / tuning::kShareUnderLimit : tuning::kMaxReserved;
  const std::uint64_t pools = limited ? 1 : Pool::useful_parts();
  const std::uint64_t own =
      round_up(sizeof(Shared) + pools * sizeof(Pool::Part) + lanes * sizeof(Lane) +
                   (lanes + pools) * sizeof(Space) + 2 * 64,
               os::page_size());
  auto* memory = static_cast<char*>(os::map(own));
  if (memory == nullptr) {
    return false;
  }
  auto* parts = reinterpret_cast<Pool::Part*>(memory + round_up(sizeof(Shared), 64));
  lanes_ = reinterpret_cast<Lane*>(parts + pools);
  possible_ = static_cast<std::uint32_t>(reserve(region, reinterpret_cast<Space*>(lanes_ + lanes),
                                                 pools, lanes, most, options_->OBSERVE != 0));
  if (possible_ == 0) {
    os::unmap(memory, own);
    return false;
  }
  pools_ = static_cast<std::uint32_t>(pools);
  for (std::uint64_t i = 0; i < pools_ + possible_; ++i) {
    region.at(i).place_on(options_->NUMA);
  }
  shared_ = new (memory) Shared;
  for (std::uint64_t i = 0; i < pools; ++i) {
    new (parts + i) Pool::Part;
  }
  shared_->pool.open({parts, pools}, &region.at(0), options_->HUGEPAGES != Choice::kNever);
  share();
  mark.open();
  region.publish();
  return true;
}

void Lanes::share() {
  const std::uint64_t memory = std::min(os::physical_memory(), shared_->pool.headroom().limit());
  shared_->slabs.limit = options_->SLAB_LIMIT != 0 ? options_->SLAB_LIMIT : memory / 2;
  shared_->slabs.most = tuning::kSlabsPerProcessor * os::processors();
  shared_->options = options_;
  shared_->lanes = lanes_;
  shared_->registry = this;
  shared_->verbose = options_->VERBOSE;
  shared_->slabs.huge_pages = options_->HUGEPAGES;
  shared_->slabs.verbose = options_->VERBOSE;
  shared_->keep_trace = !options_->TRACE_FILE.empty();
  shared_->passed_on = &passed_on;
  shared_->host = host_;
  shared_->reports =
      !options_->STATS_FILE.empty() || !options_->PLANS.empty() || options_->STATUS != 0;
}

Lane* Lanes::find() {
  ThreadState& thread = t_state;
  if (thread.left || options_ == nullptr) {
    return nullptr;
  }
  if (thread.ask_at > os::coarse_nanoseconds()) {
    return nullptr;
  }
  const NoInterrupts whole;
  Lane* lane = nullptr;
  return os::run_on_own_stack([&] { lane = adopt(); }) ? lane : adopt();
}

Lane* Lanes::adopt() {
  const RecursionGuard guard;
  ThreadState& thread = t_state;
  Lane* lane = take();
  if (lane == nullptr) {
    thread.ask_at = os::coarse_nanoseconds() + tuning::kAskForLane;
    return nullptr;
  }
  lane->follow_thread(find_stack_bounds());
  thread.lane = lane;
  if (host_.opened != nullptr && !told_.exchange(true)) {
    host_.opened(guard);
  }
  if (host_.new_thread != nullptr) {
    host_.new_thread();
  }
  return lane;
}

// A lane that nobody owns, the one left last first, or a new one, or that of a thread at rest;
// nullptr if there is none, or if other threads are at it for long.
Lane* Lanes::take() {
  const WaitLock held(registry_, Lock::Patience::kFork);
  if (!held || (!opened() && (torn_ || !open()))) {
    return nullptr;
  }
  const Nanos now = os::coarse_nanoseconds();
  const std::uint32_t used = shared_->lane_count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (lanes_[i].take()) {
      return &lanes_[i];
    }
    lanes_[i].watch(now);
  }
  if (used == possible_) {
    return take_over(now);
  }
  Lane* lane = new (lanes_ + used) Lane;
  lane->open(shared_, used, &slab_space(used));
  lane->take();
  shared_->lane_count.store(used + 1, std::memory_order_release);
  return lane;
}

// The lane at rest with which least is lost; nullptr if none rests. A trace is of each thread's own
// stream, and who replays one knows no time.
Lane* Lanes::take_over(Nanos now) {
  for (bool again = !shared_->keep_trace && !shared_->timeless; again;) {
    Lane* best = nullptr;
    for (std::uint32_t i = 0; i < possible_; ++i) {
      Lane& lane = lanes_[i];
      if (lane.may_be_taken(now) && (best == nullptr || lane.loses_less_than(*best))) {
        best = &lane;
      }
    }
    if (best != nullptr && best->take_over(now)) {
      return best;
    }
    again = best != nullptr;  // it is at work after all, and will not be chosen again
  }
  return nullptr;
}

Lane* find_another(const Shared& shared) {
  return shared.registry->find();
}

void Lanes::forget_missing_thread() {
  if (registry_.held_by_another()) {
    registry_.forget_owner();
    torn_ = !opened();
  }
}

std::uint64_t Lanes::committed_bytes() const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < spaces(); ++i) {
    sum += region.at(i).committed_bytes();
  }
  return sum;
}

}  // namespace memo
