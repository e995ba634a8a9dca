// How the lanes are set up, and how a thread comes by its lane: at its first large call, or later,
// where there was none. Hot.
#include "src/engine/lanes.h"

#include <algorithm>
#include <bit>
#include <new>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/interrupts.h"
#include "src/base/os.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// Reserves the region, at most `most` bytes: a space for each of the pool's arenas, `pools`, and
// one for each slab, each as large as physical memory where address space allows. Where it does
// not, there are fewer slabs first. How many, or 0.
std::uint32_t reserve(Region& region, Space* spaces, std::uint32_t pools, std::uint32_t slabs,
                      std::uint64_t most, bool bare) {
  for (;; slabs /= 2) {
    const std::uint64_t space =
        std::min(std::max(std::bit_ceil(os::physical_memory()), tuning::kMaxAlignment),
                 std::bit_floor(std::max<std::uint64_t>(most / (slabs + pools), 1)));
    const bool few = slabs <= tuning::kSlabsPerProcessor;
    if (region.reserve(spaces, pools, slabs + pools, space, few ? tuning::kMaxAlignment : space,
                       bare)) {
      return slabs;
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
  const std::uint64_t most = limited ? left / tuning::kShareUnderLimit : tuning::kMaxReserved;
  const std::uint32_t slabs =
      limited ? tuning::kSlabsPerProcessor
              : std::min(tuning::kSlabsPerProcessor * os::processors(), tuning::kMaxSlabs);
  const std::uint32_t pools = limited ? 1 : Pool::useful_parts();
  const std::uint64_t own = sizeof(Shared) + pools * sizeof(Pool::Part) + slabs * sizeof(Slab) +
                            (slabs + pools) * sizeof(Space);
  auto* memory = static_cast<char*>(os::map(own));
  if (memory == nullptr) {
    return false;
  }
  static_assert(alignof(Shared) % alignof(Pool::Part) == 0);
  auto* parts = reinterpret_cast<Pool::Part*>(memory + sizeof(Shared));
  auto* slab_memory = reinterpret_cast<Slab*>(parts + pools);
  auto* spaces = reinterpret_cast<Space*>(slab_memory + slabs);
  possible_ = limited ? tuning::kSlabsPerProcessor + 1 : tuning::kMaxLanes;
  const std::uint32_t count = lanes_.reserve(possible_) ? reserve(region, spaces, pools, slabs,
                                                                  most, options_->OBSERVE != 0)
                                                        : 0;
  if (count == 0) {
    lanes_.release();
    possible_ = 0;
    os::unmap(memory, own);
    return false;
  }
  pools_ = pools;
  for (std::uint32_t i = 0; i < pools + count; ++i) {
    region.at(i).place_on(options_->NUMA);
  }
  shared_ = new (memory) Shared;
  for (std::uint32_t i = 0; i < pools; ++i) {
    new (parts + i) Pool::Part;
  }
  shared_->pool.open({parts, pools}, &region.at(0), options_->HUGEPAGES != Choice::kNever);
  for (std::uint32_t i = 0; i < count; ++i) {
    (new (slab_memory + i) Slab)->open(&region.at(pools + i), &shared_->slabs, &shared_->pool);
  }
  shared_->slabs.open(slab_memory, count);
  share();
  mark.open();
  region.publish();
  return true;
}

void Lanes::share() {
  const std::uint64_t memory = std::min(os::physical_memory(), shared_->pool.headroom().limit());
  shared_->slabs.limit = options_->SLAB_LIMIT != 0 ? options_->SLAB_LIMIT : memory / 2;
  shared_->options = options_;
  shared_->lanes = lanes_.data();
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
    return common_.load(std::memory_order_acquire);
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
    thread.ask_at = os::coarse_nanoseconds() + tuning::kIdle;
    return common_.load(std::memory_order_acquire);
  }
  lane->begin(find_stack_bounds());
  thread.lane = lane;
  if (host_.opened != nullptr && !told_.exchange(true)) {
    host_.opened(guard);
  }
  if (host_.new_thread != nullptr) {
    host_.new_thread();
  }
  return lane;
}

// The lane left last that nobody is at work on, or a new one; nullptr if there is none, or if other
// threads are at it for long. Where all have threads the last one is made that of all others.
Lane* Lanes::take() {
  const WaitLock held(registry_, Lock::Patience::kFork);
  if (!held || (!opened() && (torn_ || !open()))) {
    return nullptr;
  }
  for (std::uint32_t* link = &next_free_; *link != 0;) {
    Lane& lane = at(*link - 1);
    if (lane.take()) {
      *link = lane.next_free;
      return &lane;
    }
    link = &lane.next_free;
  }
  if (shared_->lane_count.load(std::memory_order_relaxed) + 1 < possible_) {
    Lane* lane = make(false);
    return lane != nullptr && lane->take() ? lane : nullptr;
  }
  if (common_.load(std::memory_order_relaxed) == nullptr) {
    Lane* lane = make(true);
    if (lane != nullptr && lane->take()) {
      lane->begin({});
      common_.store(lane, std::memory_order_release);
    }
  }
  return nullptr;
}

Lane* Lanes::make(bool common) {
  const std::uint32_t number = shared_->lane_count.load(std::memory_order_relaxed);
  if (!lanes_.grow(number + 1)) {
    return nullptr;
  }
  Lane* lane = new (lanes_.data() + number) Lane;
  lane->open(shared_, number, common);
  shared_->lane_count.store(number + 1, std::memory_order_release);
  return lane;
}

void Lanes::put_back(Lane& lane) {
  // Where others have the registry for long the lane is nobody's for good.
  if (const WaitLock held(registry_, Lock::Patience::kFork); held) {
    MEMO_DCHECK(number_of(&lane) + 1 != next_free_);
    lane.next_free = next_free_;
    next_free_ = number_of(&lane) + 1;
  }
}

void Lanes::forget_threads(const Lane* mine) {
  next_free_ = 0;
  for (std::uint32_t i = count(); i-- > 0;) {
    Lane& lane = at(i);
    if (&lane == common_.load(std::memory_order_relaxed)) {
      lane.take();
      lane.begin({});
    } else if (&lane != mine) {
      lane.next_free = next_free_;
      next_free_ = i + 1;
    }
  }
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
