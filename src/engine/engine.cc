#include "src/engine/engine.h"

#include <algorithm>
#include <utility>

#include "src/base/interrupts.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

// What exceeds the machine's memory is refused by the underlying allocator too, and no allocation.
void* Engine::pass_on(std::uint64_t bytes, Counter Counters::* reason) {
  if (bytes <= os::physical_memory()) {
    lanes.passed_on.pass_on(bytes, reason);
  }
  return nullptr;
}

void* Engine::allocate(const Request& request) {
  const ThreadState& thread = t_state;
  if (thread.inside != 0) {
    return nullptr;
  }
  if (request.alignment > tuning::kMaxAlignment || thread.lane == nullptr || !lanes.mark.here() ||
      !lanes.region.fits(request.size)) [[unlikely]] {
    return allocate_with_care(request);
  }
  return thread.lane->allocate(request);
}

// For what is not for the lane, for a thread without one, or in a child that was just made.
void* Engine::allocate_with_care(const Request& request) {
  if (!forks.noticed()) {
    return pass_on(request.size, &Counters::fallback_busy);
  }
  if (request.alignment > tuning::kMaxAlignment) {
    return pass_on(request.size, &Counters::fallback_alignment);
  }
  Lane* lane = t_state.lane != nullptr ? t_state.lane : lanes.find();
  if (lane == nullptr) {
    return pass_on(request.size, &Counters::fallback_lane);
  }
  // What no space can hold is no part of the stream.
  if (!lanes.region.fits(request.size)) {
    return pass_on(request.size, &Counters::fallback_limit);
  }
  return lane->allocate(request);
}

namespace {

// The lane that holds the slab; nullptr if none does, which may be so at any moment.
Lane* holder_of(const Lanes& lanes, const Slab& slab) {
  const std::uint64_t word = slab.word();
  const bool held = !SlabWord::is_free(word) && SlabWord::lane(word) < lanes.count();
  return held ? &lanes.at(SlabWord::lane(word)) : nullptr;
}

// function(space, first, end) for each space that [start, start + bytes) touches: its bytes [first,
// end) from the space's start on.
template <typename Function>
void each_touched(const Lanes& lanes, const void* start, std::uint64_t bytes, Function&& function) {
  const os::Reserved part = lanes.region.part_of(start, bytes);
  const std::uint64_t to = part.start + part.bytes;
  for (std::uint64_t from = part.start; from < to;) {
    Space& space = lanes.region.at(lanes.region.number_of(reinterpret_cast<void*>(from)));
    const auto base = reinterpret_cast<std::uint64_t>(space.base());
    const std::uint64_t end = std::min(to, base + space.bytes());
    function(space, from - base, end - base);
    from = end;
  }
}

// The same for what is usable of them, in granules.
template <typename Function>
void each_usable(const Lanes& lanes, const void* start, std::uint64_t bytes, Function&& function) {
  each_touched(lanes, start, bytes, [&](Space& space, std::uint64_t first, std::uint64_t end) {
    end = std::min(end, space.committed_bytes());
    if (first < end) {
      function(space, granules_in(first), granules_of(end));
    }
  });
}

// What is free of the slab's [first, end) is given to nobody. Not where another thread is at work
// in it for long, or a frame that this one has interrupted.
void keep_out(const Lanes& lanes, Slab& slab, Granules first, Granules end) {
  const NoInterrupts whole;  // as in give_back_idle()
  const Nanos start = os::nanoseconds();
  do {
    Lane* const holder = holder_of(lanes, slab);
    const bool done = holder != nullptr ? holder->keep_out(slab, first, end)
                                        : slab.while_free([&] { slab.keep_out(first, end); });
    if (done) {
      return;
    }
  } while (os::rest() && os::nanoseconds() - start < tuning::kCallPatience);
}

}  // namespace

void Engine::note_altered(const void* start, std::uint64_t bytes) {
  each_usable(lanes, start, bytes, [](Space& space, Granules first, Granules end) {
    space.pages.mark_altered(first, end);
  });
}

// In a slab they stay with the addresses.
void Engine::note_huge(const void* start, std::uint64_t bytes) {
  each_usable(lanes, start, bytes, [&](const Space& space, Granules first, Granules end) {
    if (lanes.is_pool(space)) {
      lanes.shared().pool.note_huge(space.address(first), bytes_of(end - first));
    }
  });
}

void Engine::note_taken_out(const void* start, std::uint64_t bytes) {
  each_usable(lanes, start, bytes, [&](Space& space, Granules first, Granules end) {
    if (!space.pages.next_free(first, end).found()) {
      return;  // the usual case, which waits for no lock
    }
    if (lanes.is_pool(space)) {
      lanes.shared().pool.keep_out(space.address(first), bytes_of(end - first));
    } else {
      memo::keep_out(lanes, lanes.slab_of(space.base()), first, end);
    }
  });
  note_altered(start, bytes);
}

void Engine::note_replaced(const void* start, std::uint64_t bytes) {
  // First: nothing more is committed there while a lock is waited for.
  each_touched(lanes, start, bytes, [](Space& space, std::uint64_t first, std::uint64_t end) {
    if (end > space.committed_bytes()) {
      space.end_at(first);
    }
  });
  note_taken_out(start, bytes);
}

void Engine::note_lost(const void* start, std::uint64_t bytes) {
  note_replaced(start, bytes);
  each_usable(lanes, start, bytes, [](Space& space, Granules first, Granules end) {
    space.pages.mark_lost(first, end);
  });
}

bool Engine::is_unaltered(const void* start, std::uint64_t bytes) const {
  const Space* space = owns(start) ? lanes.space_of(start) : nullptr;
  if (space == nullptr || !space->plausible(start)) {
    return false;
  }
  const Granules first = space->granule_of(start);
  const PageMap::Run block = space->pages.block_at(first);
  return block.found() && granules_of(bytes) <= block.end() - first &&
         !space->pages.altered(block.first);
}

namespace {

// The block's pages are new ones. Where the system has none, or others may lie there, it stays in
// use for good.
bool renew(const Space& space, void* pointer) {
  const Granules first = space.granule_of(pointer);
  return !space.pages.lost(first) && os::renew(pointer, bytes_of(space.pages.length(first)));
}

// The lane that holds the slab has left its plan: the next one's places are others.
bool is_left(const Lanes& lanes, const Slab& slab) {
  const Lane* const holder = holder_of(lanes, slab);
  return holder != nullptr &&
         (holder->phase() == Phase::kLearning || holder->phase() == Phase::kPooling);
}

}  // namespace

bool Engine::free(void* pointer, bool bare) {
  Space* space = lanes.space_of(pointer);
  if (space == nullptr) {
    return false;
  }
  const bool altered = space->pages.altered(space->granule_of(pointer));
  if (altered && !renew(*space, pointer)) [[unlikely]] {
    return true;
  }
  const std::uint64_t bytes = bytes_of(space->pages.length(space->granule_of(pointer)));
  const std::uint32_t by = lanes.number_of(t_state.lane);
  if (!lanes.is_pool(*space)) {
    const Slab& slab = lanes.slab_of(pointer);
    if (slab.wants_deaths()) [[unlikely]] {
      if (Lane* const holder = holder_of(lanes, slab); holder != nullptr) {
        holder->note_death(*space, pointer, by);
      }
    }
    const bool renewed = altered && os::page_size() <= kGranule;  // to its ends
    const bool clean = renewed || (bytes >= tuning::kMinLooked && is_left(lanes, slab) &&
                                   os::purge(pointer, bytes));
    return space->pages.free(space->granule_of(pointer),
                             clean ? PageMap::Left::kNone : PageMap::Left::kAll) != Granules{0};
  }
  forks.noticed();
  return bytes != 0 && lanes.at(lanes.shared().pool.owner(pointer))
                           .free_pooled(pointer, bytes, by, bare || altered);
}

std::uint64_t Engine::size(const void* pointer) const {
  const Space* space = lanes.space_of(pointer);
  return space == nullptr ? 0 : bytes_of(space->pages.length(space->granule_of(pointer)));
}

void Engine::iteration() {
  Lane* lane = my_lane();
  if (lane != nullptr && t_state.inside == 0 && forks.noticed()) {
    const RecursionGuard guard;
    lane->iteration(guard);
  }
}

void Engine::thread_ended() {
  forks.noticed();
  ThreadState& thread = t_state;
  thread.left = true;
  Lane* lane = std::exchange(thread.lane, nullptr);
  if (lane != nullptr) {
    lane->leave();
    lanes.put_back(*lane);
  }
}

// Under strict overcommit the child is charged for all that it could write, so that a fork may be
// refused for memory that nobody uses.
void Engine::before_fork() {
  if (t_state.inside == 0 && lanes.opened() && os::counts_commitments()) {
    give_back.all();
  }
  forks.before();
}

}  // namespace memo
