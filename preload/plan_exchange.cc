#include "preload/plan_exchange.h"

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "preload/process.h"
#include "preload/reporter.h"
#include "src/base/check.h"
#include "src/base/keep_errno.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/plan_store.h"
#include "src/io/plan_cache.h"
#include "src/io/shared_file.h"

namespace memo {
namespace {

constexpr std::uint64_t kNoPlans = 0;

// A number for one plan, that changes when a lower one takes its place, or is no longer looked for.
std::uint64_t mark_of(const StoredPlan& plan) {
  const std::uint64_t lowest = plan.lowest ? 1 : 0;
  return (plan.generation + 1) * 0x9e3779b97f4a7c15U ^
         reinterpret_cast<std::uint64_t>(plan.best().get()) ^ lowest;
}

// All plans of the process, kept as they are while this lives.
class HeldPlans {
 public:
  HeldPlans() {
    g_process.engine.plans.for_each([&](StoredPlan& plan) {
      marks_[count_] = mark_of(plan);
      mark_ += marks_[count_];
      MEMO_DCHECK(count_ < tuning::kMaxPlans);
      plans_[count_] = &plan;
      const bool lowest = plan.lowest;  // before the plan, which may be lowered meanwhile
      saved_[count_++] = {plan.best().get(), plan.iteration, lowest};
    });
  }
  ~HeldPlans() {
    for (std::uint32_t i = 0; i < count_; ++i) {
      PlanStore::release(*plans_[i]);
    }
  }
  HeldPlans(const HeldPlans&) = delete;
  HeldPlans& operator=(const HeldPlans&) = delete;
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::uint64_t mark() const { return mark_; }
  [[nodiscard]] std::span<const SavedPlan> plans() const { return {saved_, count_}; }
  [[nodiscard]] const StoredPlan& plan(std::uint32_t i) const { return *plans_[i]; }
  // Of what plans() has; a lower plan may have come since.
  [[nodiscard]] std::uint64_t mark(std::uint32_t i) const { return marks_[i]; }

 private:
  StoredPlan* plans_[tuning::kMaxPlans] = {};
  std::uint64_t marks_[tuning::kMaxPlans] = {};
  SavedPlan saved_[tuning::kMaxPlans] = {};
  std::uint32_t count_ = 0;
  std::uint64_t mark_ = kNoPlans;
};

using Fetched = state::PlanExchange::Fetched;

// The folder, or false: there is none, or it is another's in what it holds.
bool cache_folder(char (&path)[4096]) {
  const option::Path& folder = g_process.options.PLANS;
  return !folder.empty() && expand_path(folder.view(), path, sizeof path);
}

std::uint32_t slot_of(const StoredPlan& plan) {
  const std::uint32_t slot = g_process.engine.lanes.shared().store.slot_of(&plan);
  MEMO_DCHECK(slot < tuning::kMaxPlans);
  return slot;
}

void note_name(void* /*context*/, const PlanName& name) {
  g_process.catalogue.add(name);
}

// The names in the folder, where it has changed. One that was changed just before it was listed is
// listed once more: its time may not tell of the next change.
void list(const RecursionGuard& guard, const char* folder) {
  const FileMark mark = FileMark::of(folder);
  if (mark == FileMark() || (mark == g_process.plan_exchange.listed &&
                             mark.written + 2 * os::kSecond < g_process.plan_exchange.listed_at)) {
    return;
  }
  g_process.plan_exchange.listed = mark;
  g_process.plan_exchange.listed_at = file_time();
  if (doubt_about_cache(folder, g_process.options.PLAN_TRUST).empty()) {
    list_cache(guard, folder, note_name, nullptr);
  }
}

Maker maker_of(const CacheRecord& record) {
  const CacheRecord here = describe_maker();
  if (std::strcmp(record.program, here.program) != 0 || record.arguments != here.arguments) {
    return Maker::kOther;
  }
  return record.code == here.code ? Maker::kCommand : Maker::kVersion;
}

// The process has made, or fetched, a plan of the same stream.
bool is_at_hand(const PlanName& name) {
  return std::ranges::any_of(g_process.plan_exchange.streams,
                             [&](const auto& stream) { return stream == name.stream; });
}

void note_known(const StoredPlan& plan, std::uint64_t mark, const PlanName& name) {
  g_process.plan_exchange.known[slot_of(plan)] = mark;
  g_process.plan_exchange.streams[slot_of(plan)] = name.stream;
}

// Lets a plan be fetched again whose slot another plan has taken, unless it was wrong.
void return_pushed_out() {
  for (Fetched& plan : g_process.plan_exchange.fetched) {
    if (plan.plan != nullptr &&
        g_process.plan_exchange.streams[slot_of(*plan.plan)] != plan.name.stream &&
        !PlanStore::was_withdrawn(*plan.plan, plan.generation)) {
      g_process.catalogue.put_back(plan.name);
      plan = {};
    }
  }
}

// A row whose plan the process has no more: there are as many rows as it may have plans.
Fetched& free_row() {
  const std::span<Fetched> rows = g_process.plan_exchange.fetched;
  auto row = std::ranges::find(rows, nullptr, &Fetched::plan);
  if (row == rows.end()) {
    row = std::ranges::find_if(rows, [](const Fetched& its) {
      return PlanStore::was_withdrawn(*its.plan, its.generation);
    });
  }
  return row != rows.end() ? *row : rows.front();
}

bool is_passing(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM;
}

// False where it may be had later.
bool fetch(const RecursionGuard& guard, const char* folder, const PlanName& name) {
  if (is_at_hand(name)) {
    return true;
  }
  Cached cached;
  std::string_view problem;
  errno = 0;
  if (!load_cached(guard, folder, name, g_process.engine.lanes.shared().slabs.limit,
                   g_process.options.PLAN_TRUST, cached, &problem)) {
    if (is_passing(errno)) {
      return false;
    }
    if (!problem.empty() && !g_process.plan_exchange.complained_of_file) {
      g_process.plan_exchange.complained_of_file = true;
      char text[kCachedNameRoom];
      write_name(name, text);
      Line() << "the plan '" << text << "' in '" << folder << "' is not used: " << problem
             << "; `memomalloc plans verify` tells of all";
    }
    return true;
  }
  const Maker maker = maker_of(cached.record);
  const std::uint32_t calls = cached.plan.plan->count;
  const StoredPlan* plan =
      g_process.engine.plans.add(guard, std::move(cached.plan.plan), cached.plan.iteration, maker);
  if (plan == nullptr) {
    return false;
  }
  note_known(*plan, mark_of(*plan), name);
  return_pushed_out();
  free_row() = {plan, plan->generation, name, maker};
  note_use(folder, name);
  if (g_process.options.VERBOSE >= 1) {
    Line() << "a plan of " << calls << " calls, made by '" << cached.record.program
           << "', is taken from the plan cache";
  }
  return true;
}

void fetch_all(const RecursionGuard& guard, const char* folder, std::uint64_t key) {
  g_process.catalogue.take(key, tuning::kMaxFetched, [&](const PlanName& name) {
    const bool done = fetch(guard, folder, name);
    if (done) {
      g_process.plan_exchange.fetches.restart();
    } else {
      g_process.plan_exchange.fetches.refused(tuning::kMaxWait);
    }
    return done;
  });
}

// What this program had in the cache and was found wrong by goes where its successor has come. With
// other arguments a program is often another one.
void remove_replaced(const char* folder, const PlanName& successor) {
  for (const Fetched& plan : g_process.plan_exchange.fetched) {
    if (plan.maker != Maker::kOther && plan.plan != nullptr && plan.name != successor &&
        share_a_key(plan.name, successor) &&
        PlanStore::was_withdrawn(*plan.plan, plan.generation)) {
      remove_cached(folder, plan.name);
    }
  }
}

bool may_only_be_read(int error) {
  return error == EROFS || error == EACCES || error == EPERM;
}

// True if the plan is in the cache now, or is not to be.
bool save(const RecursionGuard& guard, const CacheTurn& turn, const char* folder,
          const SavedPlan& plan, const PlanName& name, const CacheRecord& maker) {
  if (name.keys[0] == 0) {
    return true;
  }
  if (save_cached(guard, turn, folder, plan, name, maker, g_process.options.PLAN_TRUST)) {
    remove_replaced(folder, name);
    return true;
  }
  return may_only_be_read(errno);
}

}  // namespace

void open_cache(const RecursionGuard& guard) {
  char folder[4096];
  if (!cache_folder(folder) || os::confined()) {
    return;
  }
  const os::NoCancellation whole;
  const std::string_view doubts = doubt_about_cache(folder, g_process.options.PLAN_TRUST);
  if (!doubts.empty()) {
    Line() << "the plans in '" << folder << "' are not used, and are left as they are: " << doubts;
    g_process.options.PLANS.value[0] = '\0';
    return;
  }
  const TryLock held(g_process.plan_exchange.at_work);
  if (held && g_process.catalogue.open()) {
    g_process.plan_exchange.looked_at = os::coarse_nanoseconds();
    list(guard, folder);
    if (g_process.catalogue.count() != 0) {
      fetch_all(guard, folder, key_of_program(describe_maker()));
    }
  }
}

void fetch_cached(const RecursionGuard& guard, std::uint64_t key, bool look) {
  const Nanos now = os::coarse_nanoseconds();
  look = look && now >= g_process.plan_exchange.looked_at.load() + tuning::kAtRest;
  char folder[4096];
  if ((!look && (!g_process.catalogue.has(key) || g_process.plan_exchange.fetches.waits())) ||
      !cache_folder(folder) || os::confined()) {
    return;
  }
  const TryLock held(g_process.plan_exchange.at_work);
  if (!held) {
    return;
  }
  const os::NoCancellation whole;
  const os::KeepErrno keep_errno;
  if (look) {
    g_process.plan_exchange.looked_at = now;
    list(guard, folder);
    return_pushed_out();
  }
  fetch_all(guard, folder, key);
}

bool cache_lacks_plans() {
  if (g_process.options.PLANS.empty() || g_process.plan_exchange.saves.waits()) {
    return false;
  }
  const HeldPlans held;
  for (std::uint32_t i = 0; i < held.count(); ++i) {
    if (g_process.plan_exchange.known[slot_of(held.plan(i))] != mark_of(held.plan(i))) {
      return true;
    }
  }
  return false;
}

void save_to_cache(const RecursionGuard& guard, bool last) {
  char folder[4096];
  if (!cache_folder(folder) || (!last && g_process.plan_exchange.saves.waits())) {
    return;
  }
  const HeldPlans held;
  CacheRecord maker;
  std::optional<CacheTurn> turn;
  bool failure = false;
  int reason = 0;
  for (std::uint32_t i = 0; i < held.count(); ++i) {
    const StoredPlan& plan = held.plan(i);
    if (g_process.plan_exchange.known[slot_of(plan)] == held.mark(i)) {
      continue;
    }
    if (!turn) {
      maker = describe_maker();
      turn.emplace(folder);
    }
    const PlanName name = name_of(held.plans()[i], {.beginning = g_process.catalogue.beginning(),
                                                    .program = key_of_program(maker)});
    if (save(guard, *turn, folder, held.plans()[i], name, maker)) {
      note_known(plan, held.mark(i), name);
    } else {
      failure = true;
      reason = errno;
    }
  }
  if (failure) {
    g_process.plan_exchange.saves.refused(tuning::kMaxWait);
  } else {
    g_process.plan_exchange.saves.restart();
  }
  if (turn && !failure) {
    prune_cache(guard, folder, {});
  }
  if (failure && !g_process.plan_exchange.complained_of_cache) {
    g_process.plan_exchange.complained_of_cache = true;
    errno = reason;
    complain("plans", folder, "PLANS");
  }
}

void state::PlanExchange::forked() {
  if (at_work.held_by_another()) {
    at_work.forget_owner();
  }
  g_process.catalogue.forget_beginning();
  complained_of_cache = complained_of_file = false;
  saves.restart();
  fetches.restart();
  if (names_process(g_process.options.PLANS.view())) {
    listed = {};
    for (std::atomic<std::uint64_t>& mark : known) {
      mark = kNoPlans;
    }
  }
}

}  // namespace memo
