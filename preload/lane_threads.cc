#include "preload/lane_threads.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>

#include "preload/process.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

constinit std::atomic<std::uint32_t> threads[tuning::kMaxLanes] = {};

void set_thread(std::uint32_t number) {
  if (const std::uint32_t lane = g_process.engine.lanes.number_of(my_lane());
      lane < tuning::kMaxLanes) {
    threads[lane].store(number, std::memory_order_relaxed);
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
  return threads[lane].load(std::memory_order_relaxed);
}

void forget_lane_threads() {
  for (std::atomic<std::uint32_t>& thread : threads) {
    thread = 0;
  }
  set_thread(static_cast<std::uint32_t>(getpid()));  // which is its only thread's number, too
}

}  // namespace memo
