#include "src/engine/engine.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "src/base/bits.h"
#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/learn/learn.h"

namespace memo {
void Engine::configure(const Options& options, const Host& host) {
  options_ = &options;
  host_ = host;
}

// Reserves the region: a space for the pool and one for each lane's slab, each as large as physical
// memory where address space allows.
bool Engine::open_region() {
  const std::uint64_t left = os::address_space_left();
  std::uint64_t lanes = tuning::kMaxLanes;
  std::uint64_t space = std::bit_ceil(os::physical_memory());
  std::uint64_t most = tuning::kMaxReserved;
  if (left != UINT64_MAX) {
    lanes = 2;
    most = left / tuning::kShareUnderLimit;
  }
  space = std::min(space, std::bit_floor(std::max<std::uint64_t>(most / (lanes + 1), 1)));
  const std::uint64_t own = round_up(
      sizeof(Shared) + lanes * sizeof(Lane) + (lanes + 1) * sizeof(Space) + 64, os::page_size());
  auto* memory = static_cast<char*>(os::map(own));
  for (; memory != nullptr && space >= tuning::kMinSpace; space /= 2) {
    const std::uint64_t bytes = (lanes + 1) * space;
    const std::uint64_t record = round_up(Space::record_bytes(space), os::page_size());
    auto* base = static_cast<char*>(os::reserve(bytes, tuning::kMaxAlignment));
    auto* records = base == nullptr
                        ? nullptr
                        : static_cast<char*>(os::reserve((lanes + 1) * record, os::page_size()));
    if (records == nullptr) {
      if (base != nullptr) {
        os::unmap(base, bytes);
      }
      continue;
    }
    shared_ = new (memory) Shared;
    lanes_ = reinterpret_cast<Lane*>(memory + round_up(sizeof(Shared), 64));
    spaces_ = reinterpret_cast<Space*>(lanes_ + lanes);
    const bool sparing = os::counts_commitments();
    for (std::uint64_t i = 0; i < lanes + 1; ++i) {
      new (spaces_ + i) Space;
      if (sparing) {
        spaces_[i].be_sparing();
      }
      spaces_[i].open(base + i * space, records + i * record, space, options_->OBSERVE != 0);
      spaces_[i].join(spaces_, lanes + 1);
    }
    os::name_mapping(base, space, "memomalloc pool");
    os::name_mapping(base + space, lanes * space, "memomalloc slab");
    os::name_mapping(records, (lanes + 1) * record, "memomalloc tables");
    shared_->pool.open(spaces_, options_->HUGEPAGES != Choice::kNever);
    configure_shared();
    mark_.open();
    lanes_possible_ = static_cast<std::uint32_t>(lanes);
    space_shift_ = log2_floor(space);
    base_.store(reinterpret_cast<std::uint64_t>(base), std::memory_order_release);
    bytes_.store(bytes, std::memory_order_release);
    return true;
  }
  if (memory != nullptr) {
    os::unmap(memory, own);
  }
  return false;
}

void Engine::configure_shared() {
  const std::uint64_t memory = std::min(os::physical_memory(), shared_->pool.headroom().limit());
  shared_->slabs.limit = options_->SLAB_LIMIT != 0 ? options_->SLAB_LIMIT : memory / 2;
  shared_->options = options_;
  shared_->lanes = lanes_;
  shared_->threshold = options_->THRESHOLD;
  shared_->verbose = options_->VERBOSE;
  shared_->slabs.huge_pages = options_->HUGEPAGES;
  shared_->slabs.verbose = options_->VERBOSE;
  shared_->keep_trace = !options_->TRACE_FILE.empty();
  shared_->keep_sites = shared_->keep_trace || !options_->PLAN_FILE.empty();
  shared_->passed_on = &passed_on_;
  shared_->host = host_;
  shared_->reports = !options_->STATS_FILE.empty() || !options_->PLAN_FILE.empty() ||
                     !options_->PLANS.empty() || options_->STATUS != 0 ||
                     options_->SHARE != Share::kNothing;
}

// What exceeds the machine's memory is refused by the next allocator too, and no allocation.
void* Engine::pass_on(std::uint64_t bytes, Counter Counters::* reason) {
  if (bytes <= tuning::kAnyMachine || bytes <= os::physical_memory()) {
    passed_on_.pass_on(bytes, reason);
  }
  return nullptr;
}

void* Engine::allocate(const Request& request) {
  const ThreadState& thread = t_state;
  if (thread.inside != 0) {
    return nullptr;
  }
  if (request.alignment > tuning::kMaxAlignment || thread.lane == nullptr || !mark_.here() ||
      request.size >> space_shift_ != 0) [[unlikely]] {
    return allocate_with_care(request);
  }
  return thread.lane->allocate(request);
}

// For what is not for the lane, for a thread without one, or in a child that was just made.
void* Engine::allocate_with_care(const Request& request) {
  if (!mark_.here()) {
    notice_fork();
  }
  if (request.alignment > tuning::kMaxAlignment) {
    return pass_on(request.size, &Counters::fallback_alignment);
  }
  Lane* lane = t_state.lane != nullptr ? t_state.lane : find_lane();
  if (lane == nullptr) {
    return pass_on(request.size, &Counters::fallback_lane);
  }
  // What no space can hold is no part of the stream.
  if (request.size >> space_shift_ != 0) {
    return pass_on(request.size, &Counters::fallback_limit);
  }
  return lane->allocate(request);
}

// The number of the space that holds the pointer: 0 the pool's, n + 1 the slab's of lane n.
// kMaxLanes + 1 if no block can start there.
std::uint32_t Engine::space_of(const void* pointer) const {
  const std::uint64_t offset =
      reinterpret_cast<std::uint64_t>(pointer) - base_.load(std::memory_order_relaxed);
  const auto space = static_cast<std::uint32_t>(offset >> space_shift_);
  return space <= lane_count() && spaces_[space].plausible(pointer) ? space : tuning::kMaxLanes + 1;
}

bool Engine::free(void* pointer) {
  const std::uint32_t space = space_of(pointer);
  if (space > tuning::kMaxLanes) {
    return false;
  }
  const Lane* mine = t_state.lane;
  const auto by = mine == nullptr ? tuning::kMaxLanes : static_cast<std::uint32_t>(mine - lanes_);
  if (space != kPoolSpace) {
    Space& slab = spaces_[space];
    if (slab.user.notes()) [[unlikely]] {
      lanes_[slab.user.lane()].note_death(slab, pointer, by);
    }
    return slab.pages.release(slab.granule_of(pointer)) != 0;
  }
  if (!mark_.here()) [[unlikely]] {
    notice_fork();
  }
  const std::uint64_t bytes = size(pointer);
  return bytes != 0 && lanes_[shared_->pool.owner(pointer)].free_pooled(pointer, bytes, by);
}

std::uint64_t Engine::size(const void* pointer) const {
  const std::uint32_t space = space_of(pointer);
  if (space > tuning::kMaxLanes) {
    return 0;
  }
  return spaces_[space].pages.length(spaces_[space].granule_of(pointer)) * kGranule;
}

bool Engine::resize(void* pointer, std::uint64_t bytes) {
  const std::uint64_t now = size(pointer);
  if (space_of(pointer) == kPoolSpace && t_state.inside == 0) {
    return shared_->pool.resize(pointer, bytes) &&
           lanes_[shared_->pool.owner(pointer)].resized(now, size(pointer));
  }
  // A block of a slab stays where it is while at least half of it is used.
  const bool stays = bytes <= now && bytes >= now / 2;
  if (stays && space_of(pointer) == kPoolSpace) {
    note_left_larger();
  }
  return stays;
}

void Engine::note_foreign_growth(std::uint64_t bytes) {
  if (t_state.inside != 0) {
    return;
  }
  Lane* lane = t_state.lane;
  if (lane != nullptr) {
    lane->note_foreign_growth(bytes);
  } else {
    passed_on_.pass_on(bytes, &Counters::fallback_realloc);
  }
}

void Engine::iteration() {
  Lane* lane = t_state.lane;
  if (lane != nullptr && t_state.inside == 0) {
    const RecursionGuard guard;
    lane->iteration(guard);
  }
}

void Engine::give_back() {
  if (!mark_.here()) {
    notice_fork();
  }
  for (std::uint32_t i = 0; i < lane_count(); ++i) {
    lanes_[i].give_back();
  }
  trim();
}

// Of all spaces.
std::uint64_t Engine::committed_bytes() const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i <= lane_count(); ++i) {
    sum += spaces_[i].committed_bytes();
  }
  return sum;
}

bool Engine::relieve(std::uint64_t bytes) {
  if (!opened() || t_state.inside != 0) {
    return false;
  }
  const std::uint64_t held = committed_bytes();
  if (bytes > held || relief_.waits()) {
    return false;
  }
  give_back();
  if (shared_->host.trim_next != nullptr) {
    const RecursionGuard guard;
    shared_->host.trim_next();
  }
  const std::uint64_t now = committed_bytes();
  passed_on_.relieved.add_from_any();
  if (held >= now + bytes) {
    relief_.restart();
  } else {
    relief_.refused(tuning::kMaxWait);
  }
  return true;
}

StoredPlan* Engine::add_plan(const RecursionGuard& guard, Plan plan, std::uint32_t iteration) {
  const std::uint32_t symbolic = plan->symbolic != nullptr ? plan->count : 0;
  StoredPlan* stored = shared_->store.add(guard, std::move(plan), iteration, false);
  if (stored == nullptr) {
    return nullptr;
  }
  shared_->store.release(stored);
  Counters& counters = lanes_[0].counters;  // any thread may add plans
  counters.plans_loaded.add_from_any();
  counters.symbolic_calls.add_from_any(symbolic);
  return stored;
}

bool Engine::tick(std::uint64_t now) {
  bool quiet = lane_count() != 0;
  const bool scarce = opened() && shared_->pool.headroom().is_short();
  for (std::uint32_t i = 0; i < lane_count(); ++i) {
    quiet = lanes_[i].tick(now, scarce) && quiet;
  }
  // What is freed at rest goes back, too; what the system refuses to take is not tried each time.
  const auto kept = [&] { return shared_->pool.held().dirty_bytes(); };
  if (scarce || (quiet && (left_ == UINT64_MAX || kept() > left_))) {
    trim();
  } else if (opened()) {
    shared_->pool.settle();
  }
  left_ = quiet ? kept() : UINT64_MAX;
  return quiet && shared_->slabs.bytes.load(std::memory_order_relaxed) == 0;
}

// Whoever names a planner wants that planner's plans.
bool Engine::wants_search() const {
  return opened() && options_->PLANNER.value == std::string_view(Options().PLANNER.value) &&
         shared_->store.has_unsearched();
}

void Engine::search(const RecursionGuard& guard) {
  StoredPlan* plan = wants_search() ? shared_->store.take_unsearched() : nullptr;
  if (plan == nullptr) {
    return;
  }
  os::yield_to_others();
  plan->improve(improve(guard, *plan->made, static_cast<double>(tuning::kMaxSearchSeconds)));
  shared_->store.release(plan);
}

bool Engine::trim() {
  return opened() && shared_->pool.trim() + shared_->pool.retreat() != 0;
}

void Engine::thread_ended() {
  ThreadState& thread = t_state;
  thread.left = true;
  if (thread.lane != nullptr) {
    thread.lane->leave();
    thread.lane = nullptr;
    if (mark_.here()) {
      give_up_spare(*shared_);
    }
  }
}

}  // namespace memo
