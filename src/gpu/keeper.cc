// See keeper.h. Cold.
#include "src/gpu/keeper.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/file_map.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/io/plan_cache_name.h"

namespace memo::gpu {
namespace {

// Only those that hold here: of the others libmemomalloc.so complains, where it is loaded.
void read_own_options(Options& options) {
  std::vector<std::string> kept;
  std::vector<char*> entries;
  for (const char* name : {"MEMOMALLOC_PLANS", "MEMOMALLOC_PLAN_TRUST", "MEMOMALLOC_STATUS"}) {
    if (const char* value = secure_getenv(name)) {
      kept.push_back(std::string(name) + "=" + value);
    }
  }
  for (std::string& entry : kept) {
    entries.push_back(entry.data());
  }
  entries.push_back(nullptr);
  read_options(entries.data(), options);
}

}  // namespace

Keeper::Keeper(std::vector<StatusDevice> (*devices)(), void (*give_back)())
    : devices_(devices), give_back_(give_back), process_(getpid()) {
  read_own_options(options_);
  name_cache(options_);
  char folder[4096];
  if (!options_.PLANS.empty() && expand_path(options_.PLANS.view(), folder, sizeof folder)) {
    cache_ = std::make_unique<PlanExchange>(folder, options_.PLAN_TRUST);
  }
  const char* runtime = secure_getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && std::strlen(runtime) < sizeof runtime_) {
    std::strcpy(runtime_, runtime);
  }
  describe_process(draft_.page.body);
  draft_.page.body.opened_at = os::nanoseconds().count();
}

void Keeper::start() {
  if ((cache_ == nullptr && options_.STATUS == 0) || started_.exchange(true)) {
    return;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  pthread_t thread{};
  const int error = pthread_create(
      &thread, nullptr,
      [](void* self) -> void* {
        do {
          static_cast<Keeper*>(self)->look();
        } while (os::rest(os::kSecond));
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    Line() << "cuda: no thread for plans and status: " << std::strerror(error);
    return;
  }
  pthread_detach(thread);
}

void Keeper::look() {
  if (cache_ != nullptr) {
    cache_->write();
  }
  if (options_.STATUS != 0) {
    write_page();
  }
}

void Keeper::observed(const StatusDevice& device) {
  {
    const std::lock_guard held(lock_);
    std::erase_if(observed_, [&](const StatusDevice& one) { return one.number == device.number; });
    observed_.push_back(device);
  }
  start();
}

void Keeper::write_page() {
  const std::lock_guard held(lock_);
  StatusBody& body = draft_.page.body;
  std::uint64_t word = 0;
  if (page_ != nullptr && os::copy_mapped(&word, &page_->release, sizeof word) &&
      word != body.answered) {
    give_back_();
    body.answered = word;
  }
  std::vector<StatusDevice> rows = devices_();
  rows.insert(rows.end(), observed_.begin(), observed_.end());
  if (given_up_ || rows.empty()) {
    return;
  }
  body.device_rows = std::min<std::uint64_t>(rows.size(), kDeviceRows);
  std::copy_n(rows.begin(), body.device_rows, body.devices);
  put_text(body.phase, rows.front().phase);
  body.parent_pid = static_cast<std::uint64_t>(getppid());
  body.written_at = os::nanoseconds().count();
  seal_page(draft_.page);
  if (page_ == nullptr) {
    page_ = make_page(runtime_, draft_, path_, sizeof path_);
    given_up_ = page_ == nullptr;
  } else if (!os::copy_mapped(&page_->page, &draft_.page, sizeof draft_.page)) {
    unlink(path_);
    page_ = nullptr;
    given_up_ = true;
  }
  if (given_up_) {
    Line() << "cuda: no page of statistics: " << std::strerror(errno);
  }
}

void Keeper::finish() {
  if (getpid() != process_) {
    return;
  }
  if (cache_ != nullptr) {
    cache_->write();
  }
  const std::lock_guard held(lock_);
  if (std::exchange(page_, nullptr) != nullptr) {
    unlink(path_);
  }
  given_up_ = true;
}

}  // namespace memo::gpu
