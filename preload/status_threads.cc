#include "preload/status_threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "preload/process.h"
#include "src/base/check.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

void set_thread(std::uint32_t number) {
  if (const std::uint32_t lane = g_process.engine.lanes.number_of(my_lane());
      lane < tuning::kMaxLanes) {
    g_process.status_threads.numbers[lane].store(number, std::memory_order_relaxed);
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

std::uint32_t thread_of_lane(std::uint32_t lane) {
  MEMO_DCHECK(lane < tuning::kMaxLanes);
  return g_process.status_threads.numbers[lane].load(std::memory_order_relaxed);
}

void state::StatusThreads::forked() {
  if (g_process.options.STATUS != 0) {
    for (std::atomic<std::uint32_t>& number : numbers) {
      number = 0;
    }
    note_lane_thread();
  }
}

}  // namespace memo
