// The calls of a lane: allocations, frees, told iterations, and memory that is given back. Hot.
#include "src/engine/lane.h"

#include <algorithm>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/interrupts.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/fallback_reasons.h"

namespace memo {

bool take_idle_slab(const Shared& shared, Slab& slab, std::uint64_t word, const SlabWish& wish) {
  const std::uint32_t holder = SlabWord::lane(word);
  if (holder >= shared.lanes_taken() || shared.timeless || os::confined()) {
    return false;
  }
  const NoInterrupts whole;  // a handler could jump out of it, and leave the holder's lane locked
  const bool taken = shared.lanes[holder].hand_over(slab, word, wish);
  if (taken && shared.options->VERBOSE >= 2) {
    Line() << "lane " << wish.lane << ": slab of " << slab.height() << " bytes taken from lane "
           << holder;
  }
  return taken;
}

void Lane::open(Shared* shared, std::uint32_t number, bool common) {
  memory_.open(shared, number, &tracker_.counts());
  knowledge_.open(shared, number, &tracker_);
  tracker_.open({.counters = &counters,
                 .slab_room = shared->slabs.at(0).space().bytes(),
                 .keeps_trace = shared->keep_trace,
                 .common = common},
                &memory_, &knowledge_);
}

// What a thread that ended in the middle of a call was about is not whole, and is forgotten; the
// page maps are right at any moment.
bool Lane::take() {
  if (!entered_.try_lock()) {
    return false;
  }
  if (torn_) {
    tracker_.abandon();
    memory_.forget();
    knowledge_.forget();
    knowledge_.restart_histories();
    memory_.give_back(true);
    torn_ = false;
  } else if (phase() != Phase::kIdle) {
    end_stream();
  }
  MEMO_DCHECK(!taken_.load(std::memory_order_relaxed) && phase() == Phase::kIdle);
  MEMO_DCHECK(!memory_.holds_slab());
  forked_ = false;
  taken_.store(true, std::memory_order_relaxed);
  return true;
}

void Lane::begin(const StackBounds& stack) {
  stack_ = stack;
  if (!tracker_.state().terms.common) {
    knowledge_.can_learn();
  }
  tracker_.happened(Event::kTaken);
  entered_.unlock_quietly();
}

void Lane::leave() {
  if (entered_.held_by_me()) {
    // A handler has interrupted the lane at work and ends the thread: that call does not go on.
    torn_ = true;
    memory_.lose_slab();
    entered_.forget_owner();
  } else if (const WaitLock held(entered_, Lock::Patience::kFork); held) {
    end_stream();
  }  // else the thread that takes the lane next does it
  taken_.store(false, std::memory_order_release);
}

void Lane::end_stream() {
  tracker_.happened(Event::kLeft);
  memory_.let_slab_go();
  memory_.forget();
  knowledge_.forget();
  stack_ = {};
}

// A child counts its own calls alone.
void Lane::forget_counts() {
  counters.reset();
  tracker_.counts().forget();
}

bool Lane::wipe_free_on_fork() {
  if (!entered_.try_lock()) {
    return false;
  }
  if (memory_.holds_slab() && memory_.slab().space().wipe_free_on_fork()) {
    return true;
  }
  entered_.unlock();
  return false;
}

void Lane::after_wiped(bool in_parent) {
  if (in_parent) {
    memory_.slab().space().copy_on_fork();
  }
  entered_.unlock();
}

bool Lane::after_fork() {
  forget_counts();
  if (entered_.held_by_me()) {
    forked_ = true;
    memory_.wake_at_next_call();
    return false;
  }
  entered_.forget_owner();  // of the background thread, which may have been at work on the lane
  tracker_.happened(Event::kForked);
  return true;
}

void Lane::orphan() {
  forget_counts();
  entered_.forget_owner();
  if (taken_.load(std::memory_order_relaxed) || phase() != Phase::kIdle) {
    tracker_.abandon();
    torn_ = true;
    taken_.store(false, std::memory_order_relaxed);
  }
}

void* Lane::allocate(const Request& request) {
  // Unwinding takes the dynamic linker's lock, so it comes before our own.
  std::uint64_t site = 0;
  if (tracker_.wants_site()) [[unlikely]] {
    StackBounds stack;
    with_lane([&] { stack = stack_; });
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
  if (!memory_.holds_slab()) [[unlikely]] {
    wake();
  }
  if (const Step* step = tracker_.next(request.size); step != nullptr) [[likely]] {
    return serve_expected(request, *step);
  }
  return end(request, tracker_.called(call_of(request, site)));
}

// Another thread gives memory back in the lane for a moment: what glibc had to serve
// meanwhile would stay in its arenas, under the limit that the memory is given back for. A call
// that a handler makes in the middle of another is the underlying allocator's.
void* Lane::wait(const Request& request, std::uint64_t site) {
  if (const WaitLock entered(entered_); entered) {
    return enter(request, site);
  }
  memory_.shared().passed_on->pass_on(request.size, &Counters::fallback_busy);
  return nullptr;
}

void* Lane::serve_expected(const Request& request, const Step& step) {
  MEMO_DCHECK(step.offset + request.size <= memory_.slab().tallest());
  const SlabPlace place = memory_.slab().claim(step.offset, request.size, request.alignment);
  if (place.answer != SlabPlace::Answer::kGranted) [[unlikely]] {
    return end(request, tracker_.not_placed(call_of(request, 0), step, miss_of(place.answer)));
  }
  tracker_.placed(step.offset, request.size);
  return memory_.serve(request, step.offset, place.dirty);
}

void* Lane::end(const Request& request, const Outcome& outcome) {
  void* start = nullptr;
  switch (outcome.kind) {
    case Outcome::Kind::kPlace:
      start = memory_.serve(request, outcome.offset, outcome.dirty);
      knowledge_.bind(start, &memory_.slab().space());
      break;
    case Outcome::Kind::kBlock:
      start = outcome.given.start;
      knowledge_.bind(start, start != nullptr ? &memory_.shared().pool.space_of(start) : nullptr);
      memory_.serve(request, outcome.given);
      break;
    case Outcome::Kind::kNothing:
      knowledge_.bind(nullptr, nullptr);
      memory_.shared().passed_on->pass_on(request.size, &Counters::fallback_lane);
      break;
  }
  return start;
}

Call Lane::call_of(const Request& request, std::uint64_t site) const {
  return {.size = request.size,
          .alignment_log2 = log2_floor(request.alignment),
          .op = request.op,
          .site = site,
          .live = memory_.live.load(std::memory_order_relaxed),
          .peak = memory_.shared().pool.held().asked_peak_bytes()};
}

// A call of a lane that holds no slab by the word that it knows. While a plan is served, or after a
// fork has interrupted a call, that is news.
void Lane::wake() {
  if (forked_) {
    forked_ = false;
    tracker_.happened(Event::kForked);
  }
  if (tracker_.phase() == Phase::kServing) {
    tracker_.happened(Event::kWoken);
  }
}

void Lane::iteration(const RecursionGuard&) {
  with_lane([&] {
    knowledge_.log.recorder.mark();
    tracker_.told();
  });
}

bool Lane::note_foreign_growth(std::uint64_t bytes) {
  return with_lane([&] { tracker_.grown(bytes); });
}

bool Lane::free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane, bool bare) {
  Pool& pool = memory_.shared().pool;
  note_death(pool.space_of(start), start, freeing_lane);
  MEMO_DCHECK(memory_.live.load(std::memory_order_relaxed) >= bytes);
  memory_.live.fetch_sub(bytes, std::memory_order_relaxed);
  // While nothing is known the next layer's output may take the place of a large block, which
  // therefore waits for the next call. A program of a few calls may make no other.
  const std::uint64_t calls = counters.pooled_allocations.get();
  const bool at_once = memory_.debt.pay(bytes);
  const bool spare = !at_once && !bare && bytes >= tuning::kLargeBlock &&
                     tracker_.knows_nothing() && pool.may_return_early(bytes, tuning::kMappedAnew);
  const bool waits = spare && calls >= tuning::kEarlyCalls && bytes < tuning::kMappedAnew;
  const bool freed =
      bare ? pool.free_bare(start) : pool.free(start, at_once || (spare && !waits), waits);
  if (t_state.inside == 0) {
    ask_for_background_thread(memory_.shared(), calls);
  }
  return freed;
}

void Lane::note_death(Space& space, void* start, std::uint32_t freeing_lane) {
  if (knowledge_.log.ready()) {
    knowledge_.log.recorder.free(reinterpret_cast<std::uint64_t>(start), space.live,
                                 space.granule_of(start), freeing_lane);
  }
}

void Lane::resized(Space& space, void* start, std::uint64_t before, std::uint64_t after) {
  memory_.live.fetch_add(after - before, std::memory_order_relaxed);
  if (before > after + before / tuning::kSmallPart && knowledge_.log.ready()) {
    knowledge_.log.recorder.cut(reinterpret_cast<std::uint64_t>(start), space.live,
                                space.granule_of(start));
  }
}

bool Lane::hand_over(Slab& slab, std::uint64_t word, const SlabWish& wish) {
  const TryLock entered(entered_);
  const bool handed = entered && is_empty(slab.space()) && slab.change(word, wish.word());
  if (handed) {
    memory_.debt.set(0);
  }
  return handed;
}

bool Lane::keep_out(Slab& slab, Granules first, Granules end) {
  const WaitLock entered(entered_);
  const std::uint64_t word = slab.word();
  if (!entered || SlabWord::is_free(word) || SlabWord::lane(word) != memory_.number()) {
    return false;
  }
  slab.keep_out(first, end);
  return true;
}

void Lane::give_back() {
  with_slab([&](Slab& its) {
    memory_.give_back(true);
    its.space().retreat();  // what no block lies behind is the process' no more
    memory_.let_slab_go();
  });
}

bool Lane::tick(Nanos now, bool scarce) {
  const IdleClock::Look look = idle_.look(counters.large_allocations.get(), now);
  const bool for_long = look.time >= 2 * tuning::kAtRest;
  if (for_long || (scarce && look.rested)) {
    give_back();
  }
  with_slab([now](Slab& its) { its.age(now); });
  return for_long;
}

}  // namespace memo
