// The calls of a lane: allocations, frees, told iterations, and memory that is given back. Hot.
#include "src/engine/lane.h"

#include <algorithm>

#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/miss.h"

namespace memo {

void give_up_idle(Shared& shared, std::uint32_t at_work) {
  const Nanos now = os::coarse_nanoseconds();
  const std::uint32_t count = shared.lanes_taken();
  for (std::uint32_t i = 0; i < count; ++i) {
    Lane& lane = shared.lanes[i];
    if (i == at_work || lane.slab_height() == 0) {
      continue;
    }
    if (lane.rests(now) && is_empty(lane.slab_space())) {
      lane.give_back();
    } else {
      lane.with_slab([](const Slab& slab) { slab.give_back_unused(); });
    }
  }
  shared.pool.trim();
  if (shared.host.trim_next != nullptr) {
    const RecursionGuard guard;
    shared.host.trim_next();
  }
}

void keep(const Shared& shared, std::uint64_t calls, bool serves) {
  // Who only observes keeps nothing; and a thread's own blocks, in the middle of the program's,
  // would keep glibc from giving back what it does by itself.
  const bool much = shared.keeps_much() && calls >= tuning::kEarlyCalls && !shared.options->OBSERVE;
  // A process that only gets its memory together, such as a server that is about to fork its
  // workers, has no thread of ours, reports or not: whoever forks is to have none.
  if ((much || (serves && shared.reports)) && shared.host.keep != nullptr) {
    const RecursionGuard guard;
    shared.host.keep(guard);
  }
}

std::uint32_t borrow_slab(Shared& shared, Slab& slab, std::uint32_t at_work, std::uint64_t height) {
  const Nanos now = os::coarse_nanoseconds();
  const std::uint32_t count = shared.lanes_taken();
  std::uint32_t best = at_work;  // none
  std::uint64_t most = 0;
  bool rests = false;
  std::uint32_t others = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    Lane& lane = shared.lanes[i];
    const std::uint64_t has = lane.slab_height();
    const bool fitter = has >= height ? most < height || has < most : has > most;
    if (i == at_work || has == 0) {
      continue;
    }
    others += lane.worked(now) ? 1U : 0U;
    const bool rested = lane.rests(now);
    const bool better = best == at_work || (rested == rests ? fitter : rested);
    // Looks at the whole slab: last.
    if (better && is_empty(lane.slab_space())) {
      best = i;
      most = has;
      rests = rested;
    }
  }
  if (best == at_work || os::confined()) {
    return others;
  }
  bool lent = false;
  {
    // A handler could jump out of it, or fork and come back into what the child has mended.
    const NoInterrupts whole;
    lent = shared.lanes[best].lend(slab);
  }
  if (lent && shared.verbose >= 2) {
    Line() << "lane " << at_work << ": slab of " << slab.height() << " bytes lent by lane " << best;
  }
  // A thread that is just ending has left its lane, and not yet its slab: to take a new one would
  // be one too many.
  return others + (lent || shared.lanes[best].worked(now) ? 0U : 1U);
}

void give_up_spare(Shared& shared, std::uint64_t left) {
  const std::uint32_t count = shared.lanes_taken();
  std::uint64_t owned = left;
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Lane& lane = shared.lanes[i];
    const std::uint64_t height = lane.slab_height();
    all += height;
    owned += lane.phase() != Phase::kIdle ? height : 0;
  }
  const std::uint64_t most = shared.slabs.owned.note(owned, os::coarse_nanoseconds());
  for (std::uint32_t i = count; i-- > 0 && all > most;) {
    Lane& lane = shared.lanes[i];
    const std::uint64_t height = lane.slab_height();
    if (height != 0 && lane.phase() == Phase::kIdle && lane.give_back()) {
      all -= height;
    }
  }
}

// A space tells whose it is; of two lanes in one, it knows one.
void mend_slabs(Shared& shared, Space* spaces) {
  const std::uint32_t count = shared.lanes_taken();
  Lane* stray = nullptr;   // the pool's lock lets one thread lend at a time
  Space* empty = nullptr;  // in which no lane is
  for (std::uint32_t i = 0; i < count; ++i) {
    Lane& lane = shared.lanes[i];
    stray = lane.slab_space().user.lane() != i ? &lane : stray;
    empty = &shared.lanes[spaces[i].user.lane()].slab_space() != spaces + i ? spaces + i : empty;
  }
  if (stray != nullptr && empty != nullptr) {
    Space& of_two = stray->slab_space();
    shared.lanes[of_two.user.lane()].slab().mend(&of_two);
    stray->slab().mend(empty);
  }
}

void count_slabs(Shared& shared) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < shared.lanes_taken(); ++i) {
    bytes += shared.lanes[i].slab_height();
  }
  shared.slabs.bytes.store(bytes, std::memory_order_relaxed);
}

void* Lane::allocate(const Request& request) {
  // Unwinding takes the dynamic linker's lock, so it comes before our own.
  std::uint64_t site = 0;
  if (tracker_.wants_site()) [[unlikely]] {
    StackBounds stack;
    with_lane([&] { stack = hands_.stack; });
    const RecursionGuard guard;
    site = stack_signature(stack);
  }
  return allocate(request, site);
}

void* Lane::allocate(const Request& request, std::uint64_t site) {
  if (const TryLock entered(entered_); entered && (lease_.plain() || wake())) [[likely]] {
    return called(request, site);
  }
  return turn_away(request, site);
}

void* Lane::called(const Request& request, std::uint64_t site) {
  if (const Step* step = tracker_.next(request.size); step != nullptr) [[likely]] {
    return glide(request, *step);
  }
  return hands_.run(tracker_.called(hands_.call_of(request, site)), request);
}

// The lane is another thread's by now, and the calling one finds another; or it is just at work.
// Another thread gives memory back in it for some milliseconds: what glibc had to serve meanwhile
// stayed in its arenas, 4 MiB in each, under the limit that the memory was given back for.
void* Lane::turn_away(const Request& request, std::uint64_t site) {
  const Shared& shared = hands_.shared();
  if (mine()) {
    if (const WaitLock entered(entered_); entered && (lease_.plain() || wake())) {
      return called(request, site);
    }
    shared.passed_on->pass_on(request.size, &Counters::fallback_busy);
    return nullptr;
  }
  t_state.lane = nullptr;
  Lane* other = find_another(shared);
  if (other != nullptr) {
    return other->allocate(request);
  }
  shared.passed_on->pass_on(request.size, &Counters::fallback_lane);
  return nullptr;
}

void* Lane::glide(const Request& request, const Step& step) {
  const SlabPlace place = hands_.slab.claim(step.offset, request.size, request.alignment);
  if (place.answer != SlabPlace::Answer::kGranted) [[unlikely]] {
    return hands_.run(tracker_.not_placed(hands_.call_of(request, 0), step, miss_of(place.answer)),
                      request);
  }
  if (tracker_.placed(request.size)) {
    hands_.run(tracker_.iterated(hands_.end_iteration(step.offset, request.size)));
  }
  return hands_.serve(request, step.offset, place.dirty);
}

// The first call after memory was given back, or in a child whose fork has interrupted a call.
// False for who has the lane no more.
bool Lane::wake() {
  if (!lease_.mine()) {
    return false;
  }
  if ((lease_.take_words() & Lease::kForked) != 0) {
    hands_.run(tracker_.happened(Event::kForked));
  }
  hands_.run(tracker_.happened(Event::kWoken));
  return true;
}

void Lane::iteration(const RecursionGuard&) {
  with_lane([&] {
    hands_.log.recorder.mark();
    hands_.run(tracker_.told(hands_.log.marks().size()));
  });
}

bool Lane::note_foreign_growth(std::uint64_t bytes) {
  return with_lane([&] { tracker_.grown(bytes); });
}

bool Lane::free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane, bool bare) {
  Pool& pool = hands_.shared().pool;
  Space& space = pool.space_of(start);
  if (hands_.log.ready()) {
    hands_.log.recorder.free(reinterpret_cast<std::uint64_t>(start), space.live,
                             space.granule_of(start), freeing_lane);
  }
  hands_.live.fetch_sub(bytes, std::memory_order_relaxed);
  // While nothing is known the next layer's output may take the place of a large block: of a
  // network's first iteration 581 of 1,482 page faults were one such tensor's. A program of a few
  // calls may make no other.
  const std::uint64_t calls = counters.pooled_allocations.get();
  const bool at_once = pool.returned.pays(bytes) || bare;
  const bool spare = !at_once && bytes >= tuning::kReturnedAtOnce && tracker_.knows_nothing() &&
                     (pool.returned.first(bytes) || bytes >= tuning::kAlwaysReturned);
  const bool waits = spare && calls >= tuning::kEarlyCalls && bytes < tuning::kAlwaysReturned;
  const bool freed = pool.free(start, at_once || (spare && !waits), waits);
  if (t_state.inside == 0) {
    keep(hands_.shared(), calls);
  }
  return freed;
}

void Lane::note_death(Space& space, void* start, std::uint32_t freeing_lane) {
  if (hands_.log.ready()) {
    hands_.log.recorder.free(reinterpret_cast<std::uint64_t>(start), space.live,
                             space.granule_of(start), freeing_lane);
  }
}

bool Lane::lend(Slab& slab) {
  const TryLock entered(entered_);
  if (!entered) {
    return false;
  }
  // fork() waits for the pool's lock; a child of a bare system call mends what it finds.
  Pool& pool = hands_.shared().pool;
  if (!pool.lock_all(Lock::Patience::kCall)) {
    return false;
  }
  const bool lent = hands_.slab.lend(slab);
  pool.unlock_all();
  if (lent) {
    lease_.tell(Lease::kGivenBack);
  }
  return lent;
}

bool Lane::give_back() {
  const TryLock entered(entered_);
  if (!entered) {
    return false;
  }
  hands_.purge();
  hands_.slab.space().retreat();  // what no block lies behind is the process' no more
  lease_.tell(Lease::kGivenBack);
  return true;
}

bool Lane::tick(Nanos now, bool scarce) {
  const Quiet::Look look = quiet_.look(counters.large_allocations.get(), now);
  if ((look.for_long || (scarce && look.rested)) && !lease_.has_words()) {
    give_back();
  }
  return look.for_long;
}

}  // namespace memo
