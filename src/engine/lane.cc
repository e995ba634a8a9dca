// The calls of a lane: what each allocation and each free does in each phase. Hot.
#include "src/engine/lane.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// What each miss but kNone is counted as and called, in the order of Miss.
struct Reason {
  Counter Counters::* counter;
  std::string_view name;
};
constexpr Reason kReasons[] = {{&Counters::fallback_size, "size"},
                               {&Counters::fallback_order, "order"},
                               {&Counters::fallback_alignment, "alignment"},
                               {&Counters::fallback_occupied, "occupied"},
                               {&Counters::fallback_unplanned, "unplanned"}};
static_assert(std::size(kReasons) == static_cast<std::size_t>(Miss::kLeftOut));

}  // namespace

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kLearning:
    case Phase::kReady:
      return "learning";
    case Phase::kServing:
      return "serving";
    case Phase::kPooling:
      return "pooling";
  }
  return "idle";
}

void Lane::set_phase(Phase phase) {
  const Phase before = phase_.exchange(phase, std::memory_order_acq_rel);
  if (shared_->verbose >= 1 && before != phase && phase != Phase::kReady) {  // a plan has a line
    Line() << "lane " << number_ << ": " << name_of(phase);
  }
}

void* Lane::allocate(const Request& request) {
  // Unwinding takes the dynamic linker's lock, so it comes before our own.
  std::uint64_t site = 0;
  const Phase now = phase();
  if ((now == Phase::kPooling && demand_.wants_sites()) ||
      (shared_->keep_sites && now != Phase::kIdle)) {
    const RecursionGuard guard;
    site = stack_signature(stack_);
  }
  const TryLock entered(entered_);
  if (!entered) {
    shared_->passed_on->pass_on(request.size, &Counters::fallback_busy);
    return nullptr;
  }
  if (!awake_.load(std::memory_order_relaxed)) [[unlikely]] {
    wake();
  }
  switch (phase()) {
    case Phase::kServing:
      return shared_->keep_trace && log_.ready() ? learn(request, site) : serve(request);
    case Phase::kLearning:
    case Phase::kReady:
      return learn(request, site);
    case Phase::kPooling:
      if (log_.ready() ? restarts_ <= tuning::kMaxRestarts || shared_->keep_trace
                       : learns_again()) {
        return learn(request, site);
      }
      follow_known_plans(request.size);
      return phase() == Phase::kServing ? serve(request) : pool(request);
    case Phase::kIdle:
      break;
  }
  shared_->passed_on->pass_on(request.size, &Counters::fallback_lane);
  return nullptr;
}

void* Lane::serve(const Request& request) {
  if (shapes_.plan() != nullptr) [[unlikely]] {
    follow_shape(request.size);
    if (phase() != Phase::kServing) {
      return pool(request);
    }
  }
  Placer::Placement placement = placer_.next(request.size, request.alignment, slab_.space().pages);
  const bool matched = placement.matched();
  if ((!matched || following_) && follow_other_plans(request.size, matched)) [[unlikely]] {
    if (!matched && phase() == Phase::kServing) {
      placement = placer_.next(request.size, request.alignment, slab_.space().pages);
    }
  }
  // Without memory for another plan or shape the lane has none; what was claimed is served all the
  // same.
  if (phase() == Phase::kServing && placement.wrapped) {
    end_iteration();
  }
  if (shapes_.plan() != nullptr) [[unlikely]] {
    find_shape(request.size, matched);
  }
  if (placement.miss == Miss::kNone) {
    count_planned(request.size);
    ++placed_;
    void* start = slab_.at(placement.offset);
    MEMO_DCHECK(placement.offset + request.size <= tallest());
    MEMO_DCHECK(reinterpret_cast<std::uint64_t>(start) % request.alignment == 0);
    if (request.zero && placement.dirty) {
      clear(start, round_up(request.size, kGranule));
    }
    return start;
  }
  const bool missed = phase() == Phase::kServing;
  if (missed) {
    fall_back(request, placement.miss);
    if (placer_.health().lost()) {
      diverge();
    }
  }
  return pool(request, missed);
}

// Makes a block of calloc's zero, to the end of its granules: other allocators' functions that grow
// a zeroed block (mi_rezalloc) clear what is behind the usable size. Where blocks are written in
// part only, the rest is to cost nothing.
void Lane::clear(void* start, std::uint64_t bytes) {
  if (touched_.mostly() || !os::purge(start, bytes)) {
    std::memset(start, 0, bytes);
  }
}

// Each call ends in exactly one of these three, in which the large ones are counted too: a handler
// that jumps out of a call leaves the sums equal.
void Lane::count_planned(std::uint64_t bytes) {
  counters.large_allocations.add();
  counters.large_bytes.add(bytes);
  counters.planned_allocations.add();
  counters.planned_bytes.add(bytes);
}

void Lane::count_at_hand(std::uint64_t bytes) {
  counters.large_allocations.add();
  counters.large_bytes.add(bytes);
  counters.at_hand_allocations.add();
  counters.at_hand_bytes.add(bytes);
}

void Lane::count_other(std::uint64_t bytes) {
  counters.large_allocations.add();
  counters.large_bytes.add(bytes);
  counters.other_allocations.add();
  counters.other_bytes.add(bytes);
}

void Lane::count_fallback(std::uint64_t bytes, Counter& reason) {
  counters.fallback_allocations.add();
  counters.fallback_bytes.add(bytes);
  reason.add();
}

void Lane::fall_back(const Request& request, Miss miss) {
  const Reason& reason = kReasons[static_cast<std::size_t>(miss) - 1];
  count_fallback(request.size, counters.*reason.counter);
  if (shared_->verbose >= 3) [[unlikely]] {
    Line() << "lane " << number_ << ": " << request.size << " bytes not served near step "
           << placer_.position() << ": " << reason.name;
  }
}

// `missed`: the call is counted as a fallback already.
void* Lane::pool(const Request& request, bool missed) {
  Pool& pool = shared_->pool;
  const Arena::Block block =
      pool.allocate(request.size, request.alignment, static_cast<std::uint16_t>(number_));
  if (block.start == nullptr) {
    (block.busy ? counters.fallback_busy : counters.fallback_limit).add();
    count_other(request.size);
    return nullptr;
  }
  MEMO_DCHECK(reinterpret_cast<std::uint64_t>(block.start) % request.alignment == 0);
  live_.fetch_add(round_up(request.size, kGranule), std::memory_order_relaxed);
  counters.pooled_allocations.add();
  counters.pooled_bytes.add(request.size);
  if (counters.pooled_allocations.get() % tuning::kPoolWindow == 0) {
    age_pool();
  }
  const Phase now = phase();
  if (block.resident) {
    if (now == Phase::kPooling && !served_.begun()) {
      served_.begin(counters);
    }
    count_at_hand(request.size);
  } else {
    count_other(request.size);
    if (now == Phase::kPooling) {
      count_fallback(request.size, counters.fallback_grown);
    } else if (!missed) {
      counters.fallback_learning.add();
    }
  }
  if (now == Phase::kPooling) {
    demand_.judge(request.size, block.resident);
  }
  // A process that only gets its memory together, such as a server that is about to fork its
  // workers, has no thread of ours: whoever forks is to have none.
  if (shared_->keep != nullptr && served_.begun() &&
      (shared_->reports || pool.live_bytes() >= tuning::kKeptPool)) [[unlikely]] {
    const RecursionGuard guard;
    shared_->keep(guard);
  }
  if (request.zero && !block.zero) {
    clear(block.start, round_up(request.size, kGranule));
  }
  return block.start;
}

void Lane::note_foreign_growth(std::uint64_t bytes) {
  count_other(bytes);
  counters.fallback_realloc.add();
  if (phase() == Phase::kServing) {
    counters.fallback_allocations.add();
    counters.fallback_bytes.add(bytes);
  }
}

bool Lane::free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane) {
  Space& space = shared_->pool.space();
  if (log_.ready()) {
    log_.recorder.free(reinterpret_cast<std::uint64_t>(start), space.live, space.granule_of(start),
                       freeing_lane);
  }
  live_.fetch_sub(bytes, std::memory_order_relaxed);
  if (searching()) {
    touched_.look(start, bytes);
  }
  const bool at_once = bytes >= tuning::kReturnedAtOnce && phase() == Phase::kLearning &&
                       !looping_.load(std::memory_order_relaxed);
  return shared_->pool.free(start, at_once);
}

bool Lane::free_slab(void* start, std::uint32_t freeing_lane) {
  const std::uint64_t granule = slab_.space().granule_of(start);
  if (shared_->keep_trace && log_.ready()) {
    log_.recorder.free(reinterpret_cast<std::uint64_t>(start), slab_.space().live, granule,
                       freeing_lane);
  }
  return slab_.space().pages.release(granule) != 0;
}

}  // namespace memo
