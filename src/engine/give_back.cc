#include "src/engine/give_back.h"

#include <algorithm>

#include "src/base/interrupts.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// True in one thread once the period since `last` is over, which was then `before` and is now.
bool due(std::atomic<Nanos>& last, Nanos now, Nanos period, Nanos& before) {
  before = last.load(std::memory_order_relaxed);
  return now > before + period && last.compare_exchange_strong(before, now);
}

// The pool's peak becomes the present window's, if that is over.
void age_pool(Shared& shared, Nanos now) {
  if (Nanos before; due(shared.aged_at, now, 5 * tuning::kAtRest, before)) {
    shared.pool.age(tuning::kMaxGivenBack);
  }
}

}  // namespace

void GiveBack::all() {
  const NoInterrupts whole;  // as in give_back_idle()
  forks_.noticed();
  for (std::uint32_t i = 0; i < lanes_.count(); ++i) {
    lanes_.at(i).give_back();
  }
  if (lanes_.opened()) {
    lanes_.shared().slabs.give_back_free(Nanos{0}, os::coarse_nanoseconds());
  }
  trim();
}

bool GiveBack::trim() {
  return lanes_.opened() && lanes_.shared().pool.trim() + lanes_.shared().pool.retreat() != 0;
}

bool GiveBack::relieve(std::uint64_t bytes) {
  if (!lanes_.opened() || t_state.inside != 0) {
    return false;
  }
  const std::uint64_t held = lanes_.committed_bytes();
  const std::uint64_t live = lanes_.shared().pool.held().live_bytes();
  const bool freed = live + bytes <= live_in_vain_.load(std::memory_order_relaxed);
  if (bytes > held || (!freed && relief_.waits())) {
    return false;
  }
  all();
  lanes_.shared().trim_next();
  const std::uint64_t now = lanes_.committed_bytes();
  lanes_.passed_on.relieved.add_from_any();
  if (held >= now + bytes) {
    relief_.restart();
  } else {
    relief_.refused(tuning::kMaxWait);
    live_in_vain_.store(live, std::memory_order_relaxed);
  }
  return true;
}

bool GiveBack::tick(Nanos now) {
  if (!lanes_.opened()) {
    return false;
  }
  Pool& pool = lanes_.shared().pool;
  bool quiet = lanes_.count() != 0;
  const bool scarce = pool.headroom().is_short();
  for (std::uint32_t i = 0; i < lanes_.count(); ++i) {
    quiet = lanes_.at(i).tick(now, scarce) && quiet;
  }
  lanes_.shared().slabs.give_back_free(tuning::kAtRest, os::coarse_nanoseconds());
  // What is freed at rest goes back, too; what the system refuses to take is not tried each time.
  const auto kept = [&] { return pool.held().dirty_bytes(); };
  if (scarce || (quiet && (left_ == UINT64_MAX || kept() > left_))) {
    trim();
  } else {
    age_pool(lanes_.shared(), now);
    pool.trim_rest();
  }
  if (!scarce) {
    pool.collapse_long_lived();
  }
  left_ = quiet ? kept() : UINT64_MAX;
  if (quiet) {
    pause_ = 1;
  }
  return quiet && lanes_.shared().slabs.bytes.load(std::memory_order_relaxed) == 0;
}

bool GiveBack::waits_for_pause() const {
  return lanes_.opened() && lanes_.shared().pool.headroom().is_tight() &&
         lanes_.shared().keeps_much() && !in_pause_;
}

Nanos GiveBack::until_look() const {
  return waits_for_pause() ? std::max(tuning::kIdle, pause() / 2) : os::kSecond;
}

void GiveBack::look_for_pause(Nanos now) {
  std::uint64_t calls = 0;
  for (std::uint32_t i = 0; i < lanes_.count(); ++i) {
    calls += lanes_.at(i).counters.large_allocations.get();
  }
  const IdleClock::Look look = calls_.look(calls, now);
  if (!look.rested) {
    if (in_pause_ && pause() < tuning::kAtRest) {
      pause_ *= 2;
    }
    in_pause_ = false;
  } else if (look.time >= pause() && waits_for_pause()) {
    free_lazily();
    in_pause_ = true;
  }
}

// What a lane or a thread is just at work on stays.
void GiveBack::free_lazily() {
  const Slabs& slabs = lanes_.shared().slabs;
  for (std::uint32_t i = 0; i < slabs.count(); ++i) {
    Slab& slab = slabs.at(i);
    Granules at = slab.height() == 0 ? Space::kNone : Granules{0};
    const auto part = [&at](const Slab& its) { at = its.free_lazily(at); };
    for (Granules before = Space::kNone; at != Space::kNone && at != before;) {
      before = at;
      const std::uint64_t word = slab.word();
      if (SlabWord::is_free(word)) {
        slab.while_free([&] { part(slab); });
      } else if (SlabWord::lane(word) < lanes_.count()) {
        lanes_.at(SlabWord::lane(word)).with_slab(part);
      }
    }
  }
  lanes_.shared().pool.free_lazily();
}

void give_back_idle(Shared& shared, std::uint32_t at_work) {
  const NoInterrupts whole;  // a handler could jump out of it, and leave another lane locked
  const Nanos now = os::coarse_nanoseconds();
  for (std::uint32_t i = 0; i < shared.slabs.count(); ++i) {
    const Slab& slab = shared.slabs.at(i);
    const std::uint64_t word = slab.word();
    if (SlabWord::is_free(word) || SlabWord::lane(word) == at_work ||
        SlabWord::lane(word) >= shared.lanes_taken()) {
      continue;
    }
    Lane& lane = shared.lanes[SlabWord::lane(word)];
    if (slab.unused_for(tuning::kIdle, now) && is_empty(slab.space())) {
      lane.give_back();
    } else {
      lane.with_slab([](const Slab& its) { its.give_back_unused(); });
    }
  }
  shared.slabs.give_back_free(Nanos{0}, now);
  shared.pool.trim();
  shared.trim_next();
}

void age(Shared& shared) {
  const Nanos now = os::coarse_nanoseconds();
  age_pool(shared, now);
  // A lane that learns for long has no background thread that would tell of it.
  if (Nanos told; due(shared.told_at, now, tuning::kAtRest, told) && told != Nanos{0}) {
    shared.tell_host();
  }
}

void ask_for_background_thread(const Shared& shared, std::uint64_t calls, bool serves) {
  // Observing keeps no memory; and a thread's own blocks, in the middle of the program's, would
  // keep glibc from giving back what it does by itself.
  const bool much = shared.keeps_much() && calls >= tuning::kEarlyCalls && !shared.options->OBSERVE;
  // A process that only gets its memory together, such as a server that is about to fork its
  // workers, has no thread of ours, reports or not, since fork() would leave it behind.
  if (much || (serves && shared.reports)) {
    shared.start_background_thread();
  }
}

}  // namespace memo
