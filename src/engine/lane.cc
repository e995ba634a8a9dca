// The calls of a lane: allocations, frees, told iterations, and memory that is given back. Hot.
#include "src/engine/lane.h"

#include "src/base/tuning.h"
#include "src/engine/miss.h"

namespace memo {

void give_up_idle(Shared& shared, std::uint32_t at_work) {
  const std::uint32_t count = shared.lane_count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i != at_work) {
      shared.lanes[i].give_back();
    }
  }
  shared.pool.trim();
  if (shared.host.trim_next != nullptr) {
    const RecursionGuard guard;
    shared.host.trim_next();
  }
}

void* Lane::allocate(const Request& request) {
  // Unwinding takes the dynamic linker's lock, so it comes before our own.
  std::uint64_t site = 0;
  if (tracker_.wants_site()) [[unlikely]] {
    const RecursionGuard guard;
    site = stack_signature(hands_.stack);
  }
  return allocate(request, site);
}

void* Lane::allocate(const Request& request, std::uint64_t site) {
  const TryLock entered(entered_);
  if (!entered) [[unlikely]] {
    hands_.shared().passed_on->pass_on(request.size, &Counters::fallback_busy);
    return nullptr;
  }
  if (rest_.load(std::memory_order_relaxed) != Rest::kAwake) [[unlikely]] {
    wake();
  }
  if (tracker_.glides()) [[likely]] {
    if (const Step* step = tracker_.next(request.size); step != nullptr) [[likely]] {
      return glide(request, *step);
    }
  }
  return hands_.run(tracker_.called(hands_.call_of(request, site)), request);
}

void* Lane::glide(const Request& request, const Step& step) {
  const SlabPlace place = hands_.slab.claim(step.offset, request.size, request.alignment);
  if (place.answer != SlabPlace::Answer::kGranted) [[unlikely]] {
    return hands_.run(tracker_.not_placed(hands_.call_of(request, 0), step, miss_of(place.answer)),
                      request);
  }
  tracker_.placed(request.size);
  return hands_.serve(request, step.offset, place.dirty);
}

// The first call after memory was given back, or in a child whose fork has interrupted a call.
void Lane::wake() {
  if (rest_.exchange(Rest::kAwake, std::memory_order_relaxed) == Rest::kForked) {
    hands_.run(tracker_.happened(Event::kForked));
  }
  hands_.run(tracker_.happened(Event::kWoken));
}

void Lane::iteration(const RecursionGuard&) {
  const TryLock entered(entered_);
  if (entered) {
    hands_.log.recorder.mark();
    hands_.run(tracker_.told(hands_.log.marks().size()));
  }
}

bool Lane::free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane) {
  Pool& pool = hands_.shared().pool;
  Space& space = pool.space();
  if (hands_.log.ready()) {
    hands_.log.recorder.free(reinterpret_cast<std::uint64_t>(start), space.live,
                             space.granule_of(start), freeing_lane);
  }
  hands_.live.fetch_sub(bytes, std::memory_order_relaxed);
  if (tracker_.searching()) {
    hands_.touched.look(start, bytes);
  }
  return pool.free(start, bytes >= tuning::kReturnedAtOnce && tracker_.knows_nothing());
}

bool Lane::free_slab(void* start, std::uint32_t freeing_lane) {
  Space& space = hands_.slab.space();
  const std::uint64_t granule = space.granule_of(start);
  if (hands_.shared().keep_trace && hands_.log.ready()) {
    hands_.log.recorder.free(reinterpret_cast<std::uint64_t>(start), space.live, granule,
                             freeing_lane);
  }
  return space.pages.release(granule) != 0;
}

bool Lane::give_back() {
  const TryLock entered(entered_);
  if (!entered) {
    return false;
  }
  hands_.purge();
  hands_.slab.retreat();
  rest_.store(Rest::kGivenBack, std::memory_order_relaxed);
  return true;
}

bool Lane::tick(std::uint64_t now, bool scarce) {
  const Quiet::Look look = quiet_.look(counters.large_allocations.get(), now);
  if ((look.for_long || (scarce && look.rested)) &&
      rest_.load(std::memory_order_relaxed) == Rest::kAwake) {
    give_back();
  }
  return look.for_long;
}

}  // namespace memo
