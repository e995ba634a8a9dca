#include "preload/status.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "preload/process.h"
#include "preload/reporter.h"
#include "preload/statistics.h"
#include "src/base/check.h"
#include "src/base/file_map.h"
#include "src/base/keep_errno.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/io/status_page.h"

namespace memo {
namespace {

constexpr Nanos kWindow = 5 * os::kSecond;  // "now" is between one and two of them long

void set_thread(std::uint32_t number) {
  if (const std::uint32_t lane = g_process.engine.lanes.number_of(my_lane());
      lane < tuning::kMaxLanes) {
    g_process.status_threads.numbers[lane].store(number, std::memory_order_relaxed);
  }
}

void describe_lanes(StatusBody& body) {
  const Engine& engine = g_process.engine;
  body.lane_rows = 0;
  for (std::uint32_t i = 0; i < engine.lanes.count() && i < kLaneRows; ++i) {
    const Lane& lane = engine.lanes.at(i);
    StatusLane& row = body.lanes[body.lane_rows++];
    row.thread = g_process.status_threads.numbers[i].load(std::memory_order_relaxed);
    put_text(row.phase, name_of(lane.phase()));
    row.slab_bytes = lane.slab_height();
    row.tallest_slab_bytes = row.slab_bytes != 0 ? lane.slab().tallest() : 0;
    row.lower_bound_bytes = row.slab_bytes != 0 ? lane.slab().bound() : 0;
    row.large_bytes = lane.counters.large_bytes.get();
    row.planned_bytes = lane.counters.planned_bytes.get();
    row.at_hand_bytes = lane.counters.at_hand_bytes.get();
    row.iterations = lane.counters.iterations.get();
  }
}

// A thread that is at the cache for long keeps its plans to itself. After the lanes, which get the
// rows of theirs.
void describe_plans(StatusBody& body) {
  body.plan_rows = 0;
  for (std::uint64_t i = 0; i < body.lane_rows; ++i) {
    body.lanes[i].plan = 0;
  }
  g_process.engine.plans.for_each([&body](StoredPlan& plan) {
    const std::uint32_t users = plan.users.load(std::memory_order_relaxed) - 1;  // not this look
    if (body.plan_rows < kPlanRows) {
      StatusPlan& row = body.plans[body.plan_rows++];
      const Plan& best = plan.best();
      row = {plan.iteration, best->height, best->lower_bound, users};
      for (std::uint32_t i = 0; i < body.lane_rows; ++i) {
        if (g_process.engine.lanes.at(i).plan() == plan.generation) {
          body.lanes[i].plan = body.plan_rows;
        }
      }
    }
    PlanStore::release(plan);
  });
}

void describe_memory(StatusBody& body) {
  const Engine& engine = g_process.engine;
  const Pool& pool = engine.lanes.shared().pool;
  const std::span<const Space> spaces = pool.spaces();
  const std::uint64_t each = spaces.front().bytes();
  body.pool = {reinterpret_cast<std::uint64_t>(spaces.front().base()), spaces.size() * each};
  body.slabs = {body.pool.start + body.pool.bytes, engine.lanes.shared().slabs.count() * each};
}

// What has come since the older sample.
void describe_now(StatusBody& body, const Snapshot& all) {
  StatusShares total;
  total.nanoseconds = os::nanoseconds().count();
#define SHARES(name, help) total.name = all.counters.name.get();
#include "src/io/status_page_numbers.def"
  if (g_process.status.samples[0].nanoseconds == 0) {
    g_process.status.samples[0] = g_process.status.samples[1] = total;
    g_process.status.samples[0].nanoseconds = g_process.status.samples[1].nanoseconds =
        g_process.status.opened_at.count();
  }
  const StatusShares& before = g_process.status.samples[0];
  body.now.nanoseconds = total.nanoseconds - before.nanoseconds;
#define SHARES(name, help) body.now.name = total.name - before.name;
#include "src/io/status_page_numbers.def"
  if (Nanos{total.nanoseconds - g_process.status.samples[1].nanoseconds} >= kWindow) {
    g_process.status.samples[0] = g_process.status.samples[1];
    g_process.status.samples[1] = total;
  }
}

void describe(StatusBody& body) {
  Snapshot now;
  take(now);
  body.parent_pid = static_cast<std::uint64_t>(getppid());
  body.written_at = os::nanoseconds().count();
  body.answered = g_process.status.last_word;
  put_text(body.phase, now.phase);
#define PROCESS(name, help) body.name = now.name;
#include "src/io/status_page_numbers.def"
  body.plan_seconds = now.plan_seconds;
  std::size_t i = 0;
#define COUNTER(name, unit, help) body.counters[i++] = now.counters.name.get();
#include "src/base/counters.def"
#undef COUNTER
  describe_lanes(body);
  describe_plans(body);
  describe_memory(body);
  describe_now(body, now);
}

// The thread that has `busy` ends with this.
void leave() {
  MEMO_DCHECK(g_process.status.busy);
  g_process.status.busy.store(false, std::memory_order_release);
}

void try_later(const char* why) {
  MEMO_DCHECK(g_process.status.busy);
  g_process.status.opens.refused(tuning::kMaxWait);
  if (!std::exchange(g_process.status.complained, true)) {
    Line() << "no page of statistics: " << why
           << "; MEMOMALLOC_STATUS needs XDG_RUNTIME_DIR, or /tmp, where the user may have a "
              "folder of his own";
  }
}

// What nobody can read any more. A new one is made.
void drop(StatusFile* file) {
  MEMO_DCHECK(g_process.status.busy);
  StatusFile* now = file;
  if (g_process.status.page.compare_exchange_strong(now, nullptr)) {
    g_process.status.last_word = 0;
    munmap(file, sizeof *file);
  }
}

// The file is gone. Systemd removes a user's runtime folder at logout, and processes may go on.
bool is_removed(const StatusFile* file) {
  const os::KeepErrno keep_errno;
  return file != nullptr && access(g_process.status.path, F_OK) != 0 &&
         (errno == ENOENT || errno == ENOTDIR);
}

// Writes the draft into the page, unless that has lost its memory.
void publish(StatusFile* file) {
  MEMO_DCHECK(g_process.status.busy);
  describe(g_process.status.draft.page.body);
  seal_page(g_process.status.draft.page);
  if (os::copy_mapped(&file->page, &g_process.status.draft.page,
                      sizeof g_process.status.draft.page)) {
    g_process.status.opens.restart();
  } else {
    unlink(g_process.status.path);
    drop(file);
    try_later("the system does not let it be written");
  }
}

}  // namespace

void note_lane_thread() {
  if (g_process.options.STATUS != 0 && !os::confined()) {
    // glibc has gettid() from 2.30 on; wheels are for 2.28.
    set_thread(static_cast<std::uint32_t>(syscall(SYS_gettid)));
  }
}

void leave_lane_thread() {
  set_thread(0);
}

void state::StatusThreads::forked() {
  if (g_process.options.STATUS != 0) {
    for (std::atomic<std::uint32_t>& number : numbers) {
      number = 0;
    }
    note_lane_thread();
  }
}

void note_status_folder() {
  const char* folder = secure_getenv("XDG_RUNTIME_DIR");
  const std::string_view name = folder != nullptr ? folder : "";
  if (name.size() < sizeof g_process.status.runtime_folder) {
    name.copy(g_process.status.runtime_folder, name.size());
  }
}

bool lacks_status_page() {
  return g_process.options.STATUS != 0 && g_process.status.page == nullptr &&
         !g_process.reports.ended && !g_process.status.opens.waits();
}

void open_status_page(const RecursionGuard&) {
  if (!lacks_status_page() || !is_reporter() || g_process.engine.lanes.count() == 0 ||
      os::confined() || g_process.status.busy.exchange(true, std::memory_order_acquire)) {
    return;
  }
  const os::NoCancellation whole;
  const os::KeepErrno keep_errno;
  g_process.status.opened_at = os::nanoseconds();
  describe_process(g_process.status.draft.page.body);
  g_process.status.draft.page.body.opened_at = g_process.status.opened_at.count();
  describe(g_process.status.draft.page.body);
  seal_page(g_process.status.draft.page);
  StatusFile* made = make_page(g_process.status.runtime_folder, g_process.status.draft,
                               g_process.status.path, sizeof g_process.status.path);
  if (made == nullptr) {
    try_later(std::strerror(errno));
  }
  g_process.status.page = made;
  leave();
}

void write_status_page() {
  if (g_process.status.page == nullptr || os::confined() ||
      g_process.status.busy.exchange(true, std::memory_order_acquire)) {
    return;
  }
  if (StatusFile* file = g_process.status.page; file != nullptr && is_reporter()) {
    publish(file);
  }
  leave();
}

void keep_status_page() {
  StatusFile* file = os::confined() ? nullptr : g_process.status.page.load();
  std::uint64_t word = 0;
  if (is_removed(file) && !g_process.status.busy.exchange(true, std::memory_order_acquire)) {
    drop(file);
    leave();
  } else if (file != nullptr && os::copy_mapped(&word, &file->release, sizeof word) &&
             word != g_process.status.last_word) {
    g_process.engine.give_back.all();
    g_process.engine.lanes.shared().trim_next();
    g_process.status.last_word = word;
  }
  write_status_page();
}

void close_status_page() {
  if (g_process.status.page.exchange(nullptr) != nullptr) {
    unlink(g_process.status.path);
  }
}

}  // namespace memo
