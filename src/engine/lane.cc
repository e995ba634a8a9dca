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
  for (std::uint32_t i = 0; i < shared.slabs.count(); ++i) {
    const Slab& slab = shared.slabs.at(i);
    const std::uint64_t word = slab.word();
    if (SlabWord::is_free(word) || SlabWord::lane(word) == at_work ||
        SlabWord::lane(word) >= shared.lanes_taken()) {
      continue;
    }
    Lane& lane = shared.lanes[SlabWord::lane(word)];
    if (slab.unused_for(tuning::kIdleSlab, now) && is_empty(slab.space())) {
      lane.give_back();
    } else {
      lane.with_slab([](const Slab& its) { its.give_back_unused(); });
    }
  }
  shared.slabs.give_back_free(Nanos{0}, now);
  shared.pool.trim();
  if (shared.host.trim_next != nullptr) {
    const RecursionGuard guard;
    shared.host.trim_next();
  }
}

bool take_idle_slab(const Shared& shared, Slab& slab, std::uint64_t word, const SlabWish& wish) {
  const std::uint32_t holder = SlabWord::lane(word);
  if (holder >= shared.lanes_taken() || shared.timeless || os::confined()) {
    return false;
  }
  const NoInterrupts whole;  // a handler could jump out of it, and leave the holder's lane locked
  const bool taken = shared.lanes[holder].hand_over(slab, word, wish);
  if (taken && shared.verbose >= 2) {
    Line() << "lane " << wish.lane << ": slab of " << slab.height() << " bytes taken from lane "
           << holder;
  }
  return taken;
}

void keep(const Shared& shared, std::uint64_t calls, bool serves) {
  // Who only observes keeps nothing; and a thread's own blocks, in the middle of the program's, would
  // keep glibc from giving back what it does by itself.
  const bool much = shared.keeps_much() && calls >= tuning::kKeptCalls && !shared.options->OBSERVE;
  // A process that only gets its memory together, such as a server that is about to fork its
  // workers, has no thread of ours, reports or not: whoever forks is to have none.
  if ((much || (serves && shared.reports)) && shared.host.keep != nullptr) {
    const RecursionGuard guard;
    shared.host.keep(guard);
  }
}

void Lane::open(Shared* shared, std::uint32_t number, bool common) {
  hands_.open(shared, number, &tracker_);
  tracker_.open({.counters = &counters,
                 .slab_room = shared->slabs.at(0).space().bytes(),
                 .keeps_trace = shared->keep_trace,
                 .common = common,
                 .tape = shared->host.tape});
}

// What a thread that ended in the middle of a call was about is not whole, and is forgotten; the page
// maps are right at any moment.
bool Lane::take() {
  if (!entered_.try_lock()) {
    return false;
  }
  if (torn_) {
    hands_.run(tracker_.happened(Event::kAbandoned));
    hands_.forget();
    if (hands_.log.ready()) {
      tracker_.begin_histories(&hands_.log.sizes, &hands_.log.sites);
    }
    hands_.purge();
    torn_ = false;
  }
  forked_ = false;
  taken_.store(true, std::memory_order_relaxed);
  tracker_.happened(Event::kTaken);  // without a word: it is told when the lane follows its thread
  return true;
}

void Lane::follow_thread(const StackBounds& stack) {
  hands_.stack = stack;
  if (!tracker_.state().terms.common) {
    hands_.prepare_to_learn();
  }
  hands_.run(tracker_.happened(Event::kFollows));
  entered_.unlock_quietly();
}

void Lane::leave() {
  if (entered_.held_by_me()) {
    // A handler has interrupted the lane at work and ends the thread: that call does not go on.
    torn_ = true;
    hands_.lose_slab();
    entered_.forget_owner();
  } else if (const WaitLock held(entered_, Lock::Patience::kFork); held) {
    hands_.run(tracker_.happened(Event::kLeft));
    hands_.let_slab_go();
    hands_.forget();
  } else {
    torn_ = true;
  }
  taken_.store(false, std::memory_order_release);
}

// A child counts its own calls alone.
void Lane::forget_counts() {
  counters.reset();
  tracker_.tally().forget();
}

bool Lane::after_fork() {
  forget_counts();
  if (entered_.held_by_me()) {
    forked_ = true;
    hands_.wake_at_next_call();
    return false;
  }
  entered_.forget_owner();  // the background thread, who may have been at work on the lane
  hands_.run(tracker_.happened(Event::kForked));
  return true;
}

void Lane::orphan() {
  forget_counts();
  entered_.forget_owner();
  if (taken_.load(std::memory_order_relaxed)) {
    tracker_.happened(Event::kAbandoned);
    torn_ = true;
    taken_.store(false, std::memory_order_relaxed);
  }
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
  if (const TryLock entered(entered_); entered) [[likely]] {
    return enter(request, site);
  }
  return wait(request, site);
}

void* Lane::enter(const Request& request, std::uint64_t site) {
  if (!hands_.holds_slab()) [[unlikely]] {
    wake();
  }
  if (const Step* step = tracker_.next(request.size); step != nullptr) [[likely]] {
    return glide(request, *step);
  }
  return hands_.run(tracker_.called(hands_.call_of(request, site)), request);
}

// Another thread gives memory back in the lane for some milliseconds: what glibc had to serve meanwhile
// would stay in its arenas, under the limit that the memory is given back for. A call that a handler
// makes in the middle of another is the next allocator's.
void* Lane::wait(const Request& request, std::uint64_t site) {
  if (const WaitLock entered(entered_); entered) {
    return enter(request, site);
  }
  hands_.shared().passed_on->pass_on(request.size, &Counters::fallback_busy);
  return nullptr;
}

void* Lane::glide(const Request& request, const Step& step) {
  const SlabPlace place = hands_.slab().claim(step.offset, request.size, request.alignment);
  if (place.answer != SlabPlace::Answer::kGranted) [[unlikely]] {
    return hands_.run(tracker_.not_placed(hands_.call_of(request, 0), step, miss_of(place.answer)),
                      request);
  }
  if (tracker_.placed(request.size)) {
    hands_.run(tracker_.iterated(hands_.end_iteration(step.offset, request.size)));
  }
  return hands_.serve(request, step.offset, place.dirty);
}

// A call of a lane that holds no slab by the word that it knows. While a plan is served, or after a fork
// has interrupted a call, that is news.
void Lane::wake() {
  if (forked_) {
    forked_ = false;
    hands_.run(tracker_.happened(Event::kForked));
  }
  if (tracker_.phase() == Phase::kServing) {
    hands_.run(tracker_.happened(Event::kWoken));
  }
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
  Space& space = pool.space();
  if (hands_.log.ready()) {
    hands_.log.recorder.free(reinterpret_cast<std::uint64_t>(start), space.live,
                             space.granule_of(start), freeing_lane);
  }
  hands_.live.fetch_sub(bytes, std::memory_order_relaxed);
  // While nothing is known the next layer's output may take the place of a large block: of a network's first iteration
  // 581 of 1,482 page faults were one such tensor's. A program of a few calls may make no other.
  const std::uint64_t calls = counters.pooled_allocations.get();
  const bool at_once = pool.returned.pays(bytes) || bare;
  const bool spare = !at_once && bytes >= tuning::kReturnedAtOnce && tracker_.knows_nothing() &&
                     pool.returned.first(bytes);
  const bool waits = spare && calls >= tuning::kKeptCalls;
  const bool freed = pool.free(start, at_once || (spare && !waits), waits ? bytes : 0);
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

bool Lane::hand_over(Slab& slab, std::uint64_t word, const SlabWish& wish) {
  const TryLock entered(entered_);
  return entered && is_empty(slab.space()) && slab.change(word, wish.word());
}

bool Lane::give_back() {
  const TryLock entered(entered_);
  if (!entered) {
    return false;
  }
  if (hands_.holds_slab()) {
    hands_.purge();
    hands_.slab().space().retreat();  // what no block lies behind is the process' no more
    hands_.let_slab_go();
  }
  return true;
}

bool Lane::tick(Nanos now, bool scarce) {
  const Quiet::Look look = quiet_.look(counters.large_allocations.get(), now);
  if (look.for_long || (scarce && look.rested)) {
    give_back();
  }
  return look.for_long;
}

}  // namespace memo
