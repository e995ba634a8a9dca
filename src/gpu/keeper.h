// What goes on beside the program's calls: plans are saved (src/gpu/plan_exchange.h), the page of the
// process' GPUs is written (src/io/status_page.h), and memory is given back where `memomalloc
// release` asks. One thread, once a second; none where MEMOMALLOC_PLANS and MEMOMALLOC_STATUS ask
// for nothing. Cold.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/options.h"
#include "src/gpu/plan_exchange.h"
#include "src/io/status_page.h"

namespace memo::gpu {

class Keeper {
 public:
  // `devices` tells of those that hold memory, `give_back` asks all of them to. From the thread.
  Keeper(std::vector<StatusDevice> (*devices)(), void (*give_back)());

  // Where plans lie; nullptr: nowhere.
  [[nodiscard]] PlanExchange* cache() { return cache_.get(); }
  // Starts the thread, once, if there is anything to do.
  void start();
  // A device that torch's own allocator serves; in place of what was said of it before.
  void observed(const StatusDevice& device);
  // The process ends: saves the plans, takes the page away. Does nothing in a forked child.
  void finish();

 private:
  void look();
  void write_page();

  std::vector<StatusDevice> (*devices_)();
  void (*give_back_)();
  pid_t process_;
  Options options_;
  char runtime_[512] = "";  // the user's runtime folder
  std::unique_ptr<PlanExchange> cache_;
  std::atomic<bool> started_{false};

  std::mutex lock_;  // what follows
  std::vector<StatusDevice> observed_;
  StatusFile* page_ = nullptr;
  bool given_up_ = false;
  char path_[512] = "";
  StatusFile draft_;
};

}  // namespace memo::gpu
