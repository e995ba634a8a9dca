#include "src/engine/lane.h"

#include <algorithm>
#include <cstring>

#include "src/base/bits.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/learn/learn.h"

namespace memo {
namespace {

// Allocations that a log holds: 3.7 iterations (the most that the doubling rule asks for) of 17,000
// calls, three times the largest workload measured (GPT-2 decoding, 6000).
constexpr std::uint32_t kLogCapacity = 1U << 16;
constexpr std::uint32_t kTraceCapacity = 1U << 20;
constexpr std::uint32_t kHistory = 1U << 16;
// A stream that has filled the log this often without a period is not expected to have one.
constexpr std::uint32_t kMostRestarts = 4;
// Planning and its libraries need a real stack; a thread with less only follows plans of others.
constexpr std::uint64_t kLearnStack = 512 * 1024;
// Calls without a period, of which the last without a new peak, after which the pool's demand
// counts as learned.
constexpr std::uint32_t kPoolAfter = 256;
constexpr std::uint32_t kPeakAfter = 128;
// Calls without a period after which the stream is taken for an unordered one, whose pool may keep,
// beyond its peak, one part in kPoolSlack of what comes and goes. Four iterations of training a
// small network are fewer calls, and are to be planned with no more than their peak.
constexpr std::uint32_t kUnorderedAfter = 2048;
constexpr std::uint64_t kPoolSlack = 4;
// A lane without calls for this long has left its loop; a server may wait so long for its next
// request.
constexpr std::uint64_t kQuietNanoseconds = 4'000'000'000;
// An arena with this much in use is worth a thread that gives it back.
constexpr std::uint64_t kKeptBytes = 64ULL << 20;
// A plan that broke within this many iterations was wrong, and is not tried again.
constexpr std::uint64_t kTrialIterations = 2;
// The arena's window: a peak that does not come back within two of these is given back.
constexpr std::uint64_t kAgeNanoseconds = 10'000'000'000;
// While nothing is known of a stream, blocks of this size are given back when freed: they are of
// the start more often than of a loop. glibc does so at the same size, always
// (DEFAULT_MMAP_THRESHOLD_MAX).
constexpr std::uint64_t kReturnedAtOnce = 32ULL << 20;
constexpr std::uint64_t kHugePage = 2ULL << 20;

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

void Lane::open(Shared* shared, std::uint32_t number, Space* slab) {
  shared_ = shared;
  number_ = number;
  slab_space_ = slab;
}

void Lane::enter(const StackBounds& stack) {
  stack_ = stack;
  if (phase() != Phase::kIdle) {
    return;
  }
  if (!recorder_.ready()) {
    auto* history = static_cast<std::uint32_t*>(os::map(kHistory * sizeof(std::uint32_t)));
    if (history == nullptr ||
        !recorder_.prepare(shared_->keep_trace ? kTraceCapacity : kLogCapacity,
                           shared_->keep_trace)) {
      set_phase(Phase::kPooling);
      return;
    }
    repeat_.start(history, kHistory);
  }
  set_phase(Phase::kLearning);
}

void Lane::leave() {
  const ScopedLock held(entered_);
  if (phase() == Phase::kServing || phase() == Phase::kReady) {
    drop_plan();
  }
  if (!shared_->keep_trace) {
    recorder_.restart();
  }
  follower_.restart();
  mark_count_ = 0;
  stack_ = {};
  phase_.store(Phase::kIdle, std::memory_order_release);
}

void Lane::set_phase(Phase phase) {
  phase_.store(phase, std::memory_order_release);
}

void* Lane::allocate(const Request& request) {
  // Unwinding takes the dynamic linker's lock, so it comes before our own.
  std::uint64_t site = 0;
  const Phase now = phase();
  if (now == Phase::kLearning || (shared_->keep_trace && now != Phase::kIdle)) {
    const RecursionGuard guard;
    site = stack_signature(stack_);
  }
  const TryLock entered(entered_);
  if (!entered) {
    counters.fallback_busy.add();
    return nullptr;
  }
  if (!awake_.load(std::memory_order_relaxed)) [[unlikely]] {
    wake();
  }
  counters.large_allocations.add();
  counters.large_bytes.add(request.size);
  if (counters.served_allocations.get() != 0) {
    counters.since_large_bytes.add(request.size);
  }
  switch (phase()) {
    case Phase::kServing:
      return shared_->keep_trace ? learn(request, site) : serve(request);
    case Phase::kLearning:
    case Phase::kReady:
      return learn(request, site);
    case Phase::kPooling:
      if (restarts_ <= kMostRestarts || shared_->keep_trace) {
        return learn(request, site);
      }
      follow_known_plans(request.size);
      return phase() == Phase::kServing ? serve(request) : pool(request);
    case Phase::kIdle:
      break;
  }
  return nullptr;
}

// The first call after memory was given back.
void Lane::wake() {
  awake_.store(true, std::memory_order_relaxed);
  if (phase() == Phase::kServing && !open_slab(plan_->schedule->height)) {
    drop_plan();
    set_phase(Phase::kPooling);
  }
}

void* Lane::serve(const Request& request) {
  const Server::Placement placement =
      server_.next(request.size, request.alignment, slab_space_->pages);
  if (placement.wrapped) {
    counters.iterations.add(server_.schedule()->count / plan_->iteration);
  }
  if (placement.miss == Miss::kNone) {
    count_served(request.size);
    void* start = slab_space_->base() + placement.offset;
    if (request.zero && placement.dirty) {
      std::memset(start, 0, request.size);
    }
    return start;
  }
  fall_back(request, placement.miss);
  if (server_.lost()) {
    diverge();
  }
  return pool(request);
}

void Lane::count_served(std::uint64_t bytes) {
  if (counters.served_allocations.get() == 0) {
    counters.since_large_bytes.add(bytes);
  }
  counters.served_allocations.add();
  counters.served_bytes.add(bytes);
}

void Lane::count_fallback(std::uint64_t bytes, Counter& reason) {
  counters.fallback_allocations.add();
  counters.fallback_bytes.add(bytes);
  reason.add();
}

void Lane::fall_back(const Request& request, Miss miss) {
  switch (miss) {
    case Miss::kNone:
      return;
    case Miss::kSize:
      return count_fallback(request.size, counters.fallback_size);
    case Miss::kOrder:
      return count_fallback(request.size, counters.fallback_order);
    case Miss::kAlignment:
      return count_fallback(request.size, counters.fallback_alignment);
    case Miss::kOccupied:
      return count_fallback(request.size, counters.fallback_occupied);
    case Miss::kLeftOut:
      return count_fallback(request.size, counters.fallback_unplanned);
  }
}

void* Lane::pool(const Request& request) {
  Pool& pool = shared_->pool;
  const Arena::Block block =
      pool.allocate(request.size, request.alignment, static_cast<std::uint16_t>(number_));
  if (block.start == nullptr) {
    counters.fallback_limit.add();
    return nullptr;
  }
  live_.fetch_add(round_up(request.size, kGranule), std::memory_order_relaxed);
  counters.pooled_allocations.add();
  counters.pooled_bytes.add(request.size);
  if ((counters.pooled_allocations.get() & 255) == 0) {
    age_pool();
  }
  if (phase() == Phase::kPooling) {
    if (block.resident) {
      count_served(request.size);
    } else {
      count_fallback(request.size, counters.fallback_grown);
    }
  }
  if (shared_->keep != nullptr && pool.live_bytes() >= kKeptBytes) [[unlikely]] {
    const RecursionGuard guard;
    shared_->keep(guard);
  }
  if (request.zero && !block.zero) {
    std::memset(block.start, 0, request.size);
  }
  return block.start;
}

void Lane::age_pool() {
  const std::uint64_t now = os::coarse_nanoseconds();
  std::uint64_t before = shared_->aged_at.load(std::memory_order_relaxed);
  if (now - before > kAgeNanoseconds && shared_->aged_at.compare_exchange_strong(before, now)) {
    shared_->pool.age();
  }
}

void* Lane::learn(const Request& request, std::uint64_t site) {
  if (recorder_.full() && !shared_->keep_trace) {
    counters.recorder_full.add();
    recorder_.restart();
    ++restarts_;
  }
  if (phase() == Phase::kLearning || phase() == Phase::kPooling) {
    look_for_pool();
  }
  Allocation allocation;
  allocation.size = request.size;
  allocation.site = site;
  allocation.alignment_log2 = log2_floor(request.alignment);
  allocation.op = request.op;
  const std::uint32_t index = recorder_.note(allocation, live_.load(std::memory_order_relaxed));
  if (index != kNotRecorded) {
    counters.learned_allocations.add();
  }
  if (phase() == Phase::kReady) {
    wait_for_quiet(request.size);
  } else if (phase() != Phase::kServing) {
    follow_known_plans(request.size);
  }
  const bool serving = phase() == Phase::kServing;
  void* start = serving ? serve(request) : pool(request);
  if (start != nullptr && index < recorder_.count()) {
    Space& space =
        start >= slab_space_->base() && start < slab_space_->base() + slab_space_->bytes()
            ? *slab_space_
            : shared_->pool.space();
    recorder_.bind(index, reinterpret_cast<std::uint64_t>(start), space.live,
                   space.granule_of(start));
  }
  if (!serving && repeat_.add(request.size, allocation.alignment_log2) &&
      (phase() == Phase::kLearning || phase() == Phase::kPooling)) {
    try_to_learn();
  }
  return start;
}

void Lane::look_for_pool() {
  const std::uint64_t peak = shared_->pool.peak_bytes();
  same_peak_ = peak == last_peak_ ? same_peak_ + 1 : 0;
  last_peak_ = peak;
  ++searched_;
  if (phase() == Phase::kLearning && searched_ >= kPoolAfter && same_peak_ >= kPeakAfter) {
    set_phase(Phase::kPooling);
  }
  if (searched_ == kUnorderedAfter) {
    shared_->pool.allow_slack(kPoolSlack);
  }
}

void Lane::try_to_learn() {
  if (stack_.room() < kLearnStack) {
    return;
  }
  const RecursionGuard guard;
  LearnOptions options;
  options.planner = shared_->planner;
  options.plan_milliseconds = static_cast<std::uint32_t>(shared_->plan_milliseconds);
  options.min_run = repeat_.required();
  options.marks = {marks_, mark_count_};
  Period period;
  const Schedule* schedule = memo::learn(guard, recorder_.log(), options, &period);
  if (schedule == nullptr) {
    return;
  }
  plan_ = shared_->store.add(guard, schedule, period.length);
  if (plan_ == nullptr) {
    discard(schedule);
    return;
  }
  counters.plans.add();
  plan_seconds_ += schedule->plan_seconds;
  position_ = (recorder_.count() - period.first) % schedule->count;
  // Starting where the least is alive keeps learning's memory and the slab's from adding up.
  const auto live = recorder_.live().last(std::min(period.length, recorder_.count()));
  const auto [low, high] = std::minmax_element(live.begin(), live.end());
  quiet_level_ = *low + (*high - *low) / 16;
  patience_ = period.length + kContext;
  set_phase(Phase::kReady);
  if (shared_->verbose >= 1) {
    Line() << "lane " << number_ << ": period of " << period.length << " allocations after "
           << recorder_.count() << ", slab of " << schedule->height << " bytes, bound "
           << schedule->lower_bound;
  }
}

void Lane::follow_known_plans(std::uint64_t size) {
  const Follower::Found found = follower_.next(shared_->store, size);
  if (found.plan == nullptr) {
    return;
  }
  plan_ = found.plan;
  // The call at hand is the step before the one that comes next.
  position_ = (found.position + plan_->schedule->count - 1) % plan_->schedule->count;
  start_serving();
}

// Between the plan and its first block: the call must be the step expected, and the time a quiet
// one.
void Lane::wait_for_quiet(std::uint64_t size) {
  const Schedule& schedule = *plan_->schedule;
  if (schedule.steps[position_].size != size) {
    shared_->store.withdraw(plan_);
    drop_plan();
    repeat_.lock_broke(0);
    set_phase(Phase::kLearning);
    return;
  }
  if (live_.load(std::memory_order_relaxed) <= quiet_level_ || --patience_ == 0) {
    start_serving();
    return;
  }
  position_ = (position_ + 1) % schedule.count;
}

void Lane::start_serving() {
  if (!open_slab(plan_->schedule->height)) {
    drop_plan();
    set_phase(Phase::kPooling);
    return;
  }
  bound_ = std::max(bound_.load(std::memory_order_relaxed), plan_->schedule->lower_bound);
  server_.start(plan_->schedule, &plan_->index, position_);
  served_before_ = counters.served_allocations.get();
  if (!shared_->keep_trace) {
    recorder_.restart();
  }
  mark_count_ = 0;
  searched_ = restarts_ = 0;
  shared_->pool.allow_slack(0);
  forget_pooling();
  set_phase(Phase::kServing);
  const RecursionGuard guard;
  if (shared_->phase_changed != nullptr) {
    shared_->phase_changed(guard);
  }
  if (shared_->keep != nullptr) {
    shared_->keep(guard);
  }
}

// What the pool served before the first plan was known is no part of what the plans are judged by.
void Lane::forget_pooling() {
  if (planned_) {
    return;
  }
  planned_ = true;
  for (Counter* counter :
       {&counters.served_allocations, &counters.served_bytes, &counters.since_large_bytes,
        &counters.fallback_allocations, &counters.fallback_bytes, &counters.fallback_grown}) {
    counter->reset();
  }
}

// Memory for a slab of `height` bytes. What learning left behind is given back first, so that the
// two never add up; huge pages cover whole huge pages of the slab only, so that none is populated
// beyond its height.
bool Lane::open_slab(std::uint64_t height) {
  if (height <= slab_height_.load(std::memory_order_relaxed)) {
    shared_->pool.trim();
    return true;
  }
  // Known plans are tried again at each call, so being refused must cost little, and is said once.
  if (!reserve_slab(height)) {
    if (shared_->verbose >= 1 && !refused_) {
      Line() << "no memory for a slab of " << height << " bytes; serving without one";
    }
    refused_ = true;
    return false;
  }
  refused_ = false;
  shared_->pool.trim();
  if (shared_->trim_next != nullptr) {
    const RecursionGuard guard;
    shared_->trim_next();
  }
  os::populate(slab_space_->base(), round_up(height, os::page_size()));
  return true;
}

// Takes the slab's part of the limit and its addresses; the memory comes when it is touched.
bool Lane::reserve_slab(std::uint64_t height) {
  const std::uint64_t more = height - slab_height_.load(std::memory_order_relaxed);
  if (shared_->slab_bytes.fetch_add(more, std::memory_order_relaxed) + more > shared_->slab_limit ||
      !slab_space_->commit(height)) {
    shared_->slab_bytes.fetch_sub(more, std::memory_order_relaxed);
    return false;
  }
  const std::uint64_t whole = round_down(height, kHugePage);
  if (shared_->huge_pages && whole > 0) {
    os::advise_huge(slab_space_->base(), whole, true);
  }
  slab_height_.store(height, std::memory_order_relaxed);
  tallest_ = std::max(tallest_.load(std::memory_order_relaxed), height);
  return true;
}

// The program has changed. A plan that hardly served was wrong; others are kept, since programs
// come back.
void Lane::diverge() {
  counters.diverged.add();
  const std::uint64_t served = counters.served_allocations.get() - served_before_;
  if (served < kTrialIterations * plan_->iteration) {
    shared_->store.withdraw(plan_);
  }
  repeat_.lock_broke(static_cast<std::uint32_t>(std::min<std::uint64_t>(served, UINT32_MAX)));
  drop_plan();
  follower_.restart();
  set_phase(Phase::kLearning);
  if (shared_->verbose >= 1) {
    Line() << "lane " << number_ << ": the program has changed after " << served
           << " served allocations; learning again";
  }
}

void Lane::drop_plan() {
  server_.stop();
  shared_->store.release(plan_);
  plan_ = nullptr;
}

void Lane::note_foreign_growth(std::uint64_t bytes) {
  counters.large_allocations.add();
  counters.large_bytes.add(bytes);
  if (counters.served_allocations.get() != 0) {
    counters.since_large_bytes.add(bytes);
  }
  if (phase() == Phase::kServing) {
    counters.fallback_allocations.add();
    counters.fallback_bytes.add(bytes);
    counters.fallback_realloc.add();
  }
}

void Lane::iteration(const RecursionGuard&) {
  const TryLock entered(entered_);
  if (!entered) {
    return;
  }
  recorder_.mark();
  if (phase() == Phase::kServing) {
    return;
  }
  if (mark_count_ == kMostMarks) {
    std::copy(marks_ + kMostMarks / 2, marks_ + kMostMarks, marks_);
    mark_count_ = kMostMarks / 2;
  }
  marks_[mark_count_++] = recorder_.count();
  if ((phase() == Phase::kLearning || phase() == Phase::kPooling) && mark_count_ >= 3) {
    try_to_learn();
  }
}

bool Lane::free_pooled(void* start, std::uint64_t bytes, std::uint32_t freeing_lane) {
  Space& space = shared_->pool.space();
  if (recorder_.ready()) {
    recorder_.free(reinterpret_cast<std::uint64_t>(start), space.live, space.granule_of(start),
                   freeing_lane);
  }
  live_.fetch_sub(bytes, std::memory_order_relaxed);
  const bool at_once = bytes >= kReturnedAtOnce && phase() == Phase::kLearning;
  return shared_->pool.free(start, at_once);
}

bool Lane::free_slab(void* start, std::uint32_t freeing_lane) {
  const std::uint64_t granule = slab_space_->granule_of(start);
  if (shared_->keep_trace && recorder_.ready()) {
    recorder_.free(reinterpret_cast<std::uint64_t>(start), slab_space_->live, granule,
                   freeing_lane);
  }
  return slab_space_->pages.release(granule) != 0;
}

bool Lane::give_back() {
  const TryLock entered(entered_);
  if (!entered) {
    return false;
  }
  purge_slab();
  awake_.store(false, std::memory_order_relaxed);
  return true;
}

void Lane::purge_slab() {
  const std::uint64_t height = slab_height_.exchange(0, std::memory_order_relaxed);
  if (height == 0) {
    return;
  }
  shared_->slab_bytes.fetch_sub(height, std::memory_order_relaxed);
  counters.released.add();
  const std::uint64_t top = height / kGranule;
  for (PageMap::Run run = slab_space_->pages.next_free(0, top); run.count != 0;
       run = slab_space_->pages.next_free(run.first + run.count, top)) {
    if (os::purge(slab_space_->address(run.first), run.count * kGranule)) {
      slab_space_->pages.mark_clean(run.first, run.count);
    }
  }
}

void Lane::preheat(std::uint64_t height) {
  {
    const TryLock entered(entered_);
    if (!entered || slab_height_.load(std::memory_order_relaxed) != 0 || !reserve_slab(height)) {
      return;
    }
  }
  // Without the lock: populating memory that nobody is served from yet is in no one's way.
  os::populate(slab_space_->base(), round_up(height, os::page_size()));
}

bool Lane::tick(std::uint64_t now) {
  const std::uint64_t calls = counters.large_allocations.get();
  if (calls != seen_) {
    seen_ = calls;
    quiet_since_ = now;
  }
  const bool quiet = now - quiet_since_ >= kQuietNanoseconds;
  if (quiet && awake_.load(std::memory_order_relaxed)) {
    give_back();
  }
  return quiet;
}

void Lane::after_fork() {
  if (phase() == Phase::kServing || phase() == Phase::kReady) {
    drop_plan();
    set_phase(Phase::kLearning);
  }
  give_back();
  follower_.restart();
  recorder_.restart();
  counters.reset();
}

void Lane::orphan() {
  plan_ = nullptr;
  phase_.store(Phase::kPooling, std::memory_order_release);
}

}  // namespace memo
