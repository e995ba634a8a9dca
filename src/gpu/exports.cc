// What leaves libmemomalloc-cuda.so: torch's pluggable allocator, and what
// python/memomalloc/cuda.py asks. Cold; any thread.
//
// Nothing below may throw but malloc, whose caller expects torch's exceptions.
#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "src/base/message.h"
#include "src/gpu/device.h"
#include "src/gpu/keeper.h"
#include "src/gpu/torch_errors.h"

#define MEMO_CUDA __attribute__((visibility("default")))

namespace memo::gpu {
namespace {

constexpr int kMostDevices = 64;

// Never destroyed: tensors are freed until the very end of the process.
struct Library {
  Driver driver;
  std::string missing;  // why there is no driver; empty: there is one
  std::string problem;  // why nothing can be served; empty before the driver was to start
  int device_count = 0;
  std::mutex lock;
};
std::array<std::atomic<Device*>, kMostDevices> g_devices{};
std::atomic<bool> g_forked{false};

template <typename Visit>
void each_device(int number, Visit visit) {
  for (int i = 0; i < kMostDevices; ++i) {
    Device* one = g_devices[static_cast<std::size_t>(i)].load(std::memory_order_acquire);
    if (one != nullptr && (number < 0 || number == i)) {
      visit(*one);
    }
  }
}

std::atomic<Keeper*> g_keeper{nullptr};

Keeper& keeper() {
  static Keeper* const kKeeper = [] {
    auto* made = new Keeper(
        [] {
          std::vector<StatusDevice> rows;
          each_device(-1, [&](Device& one) { rows.push_back(one.status()); });
          return rows;
        },
        [] { each_device(-1, [](Device& one) { one.give_back(); }); });
    g_keeper.store(made);
    return made;
  }();
  return *kKeeper;
}

[[gnu::destructor]] void at_exit() {
  if (Keeper* made = g_keeper.load()) {
    made->finish();
  }
}

Library& library() {
  static Library* const kLibrary = [] {
    auto* made = new Library;
    made->missing = made->driver.load();
    return made;
  }();
  return *kLibrary;
}

// With the driver started. Only what needs a GPU calls this: until then the program may choose its
// GPUs, and fork.
Library& started() {
  static Library* const kStarted = [] {
    Library& all = library();
    all.problem = all.missing.empty() ? all.driver.start() : all.missing;
    if (all.problem.empty()) {
      all.driver.device_count(&all.device_count);
    }
    // A child can use no GPU, and another thread of its parent may have held any lock: it sees no
    // device any more.
    pthread_atfork(nullptr, nullptr, [] {
      g_forked.store(true);
      for (auto& place : g_devices) {
        place.store(nullptr);
      }
    });
    return &all;
  }();
  return *kStarted;
}

Device* device(int number) {
  Library& all = started();
  if (g_forked.load(std::memory_order_relaxed) || number < 0 || number >= kMostDevices ||
      number >= all.device_count) {
    return nullptr;
  }
  auto& place = g_devices[static_cast<std::size_t>(number)];
  Device* found = place.load(std::memory_order_acquire);
  if (found == nullptr) {
    const std::lock_guard guard(all.lock);
    found = place.load(std::memory_order_acquire);
    if (found == nullptr) {
      Settings settings;
      settings.cache = keeper().cache();
      found = new Device(all.driver, number, all.device_count, settings);
      place.store(found, std::memory_order_release);
      keeper().start();
    }
  }
  return found;
}

// The same if it has had a block already, else null: asked for figures no GPU is taken into use.
Device* device_in_use(int number) {
  return number >= 0 && number < kMostDevices
             ? g_devices[static_cast<std::size_t>(number)].load(std::memory_order_acquire)
             : nullptr;
}

// The device that has the block; null: none has.
Device* owner_of(Address address) {
  for (auto& place : g_devices) {
    Device* one = place.load(std::memory_order_acquire);
    if (one != nullptr && one->size_of(address) != 0) {
      return one;
    }
  }
  return nullptr;
}

// Asked before torch changes its allocator: without virtual memory management every tensor would
// fail.
std::string problem_of_gpus() {
  const Library& all = library();
  const pid_t child = all.missing.empty() ? fork() : -1;
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(60);        // one that hangs is waited for no longer
    int without = 0;  // the first such GPU's number, from 1 on
    int count = 0;
    if (all.driver.start().empty()) {
      all.driver.device_count(&count);
    }
    for (int i = std::min(count, kMostDevices); i-- > 0;) {
      int has = 1;
      all.driver.device_attribute(&has, kHasVirtualMemory, i);
      without = has == 0 ? i + 1 : without;
    }
    _exit(without);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {  // the program has waited for all its children, and has the answer
      return "";
    }
  }
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0
             ? no_virtual_memory(WEXITSTATUS(status) - 1)
             : all.missing;
}

Device::Result allocate(std::int64_t size, int number, Stream stream) {
  if (!started().problem.empty()) {
    return {0, started().problem, false};
  }
  if (g_forked.load(std::memory_order_relaxed)) {
    int count = 0;
    const int error = library().driver.device_count(&count);
    return {0, "CUDA error in a forked process: " + library().driver.name_of(error), false};
  }
  Device* one = device(number);
  if (one == nullptr || size < 0) {
    return {0,
            one == nullptr ? "there is no CUDA device " + std::to_string(number)
                           : "the size of a CUDA block is negative",
            false};
  }
  try {
    return one->allocate(static_cast<std::uint64_t>(size), stream);
  } catch (const std::bad_alloc&) {
    return {0, "the host has no memory for the books of the CUDA allocator", true};
  }
}

// A function object of libstdc++'s, as torch passes it, whichever C++ library this is built with.
class ForeignFilter {
 public:
  struct Layout {
    std::uintptr_t storage[2];
    bool (*manage)(void* to, const void* from, int operation);
    bool (*invoke)(const void* storage, Stream* stream);
  };
  explicit ForeignFilter(const Layout& given) : layout_{{0, 0}, nullptr, given.invoke} {
    if (given.manage != nullptr) {
      given.manage(layout_.storage, given.storage, kClone);
      layout_.manage = given.manage;
    }
  }
  ~ForeignFilter() {
    if (layout_.manage != nullptr) {
      layout_.manage(layout_.storage, layout_.storage, kDestroy);
    }
  }
  ForeignFilter(const ForeignFilter&) = delete;
  ForeignFilter& operator=(const ForeignFilter&) = delete;
  bool operator()(Stream stream) const {
    return layout_.manage == nullptr || layout_.invoke(layout_.storage, &stream);
  }

 private:
  static constexpr int kClone = 2;
  static constexpr int kDestroy = 3;
  Layout layout_;
};

[[noreturn]] void misuse(const char* what, const void* pointer) {
  (Line(Line::Kind::kLastWords) << "cuda: " << what << " ")
      .hex(reinterpret_cast<std::uint64_t>(pointer));
  std::abort();
}

}  // namespace
}  // namespace memo::gpu

using memo::gpu::Address;
using memo::gpu::Device;
using memo::gpu::PoolId;

extern "C" {

MEMO_CUDA void* memomalloc_cuda_malloc(ssize_t size, int device, void* stream) {
  static thread_local char error[1024];
  void* result = nullptr;
  bool memory = false;
  {
    const Device::Result done = memo::gpu::allocate(size, device, stream);
    result = reinterpret_cast<void*>(done.address);
    memory = done.memory;
    std::snprintf(error, sizeof error, "%s", done.error.c_str());
  }
  if (error[0] != '\0') {
    // Nothing with a destructor is alive here.
    memo::gpu::throw_as_torch(error, memory);
    memo::gpu::throw_as_torch(error, false);  // this torch's own for no memory is not to be found
    memo::Line() << "cuda: " << error;        // no torch: the caller sees a null pointer
  }
  return result;
}

MEMO_CUDA void memomalloc_cuda_free(void* pointer, ssize_t /*size*/, int device, void* /*stream*/) {
  if (pointer == nullptr || memo::gpu::g_forked.load(std::memory_order_relaxed)) {
    return;
  }
  const auto address = reinterpret_cast<Address>(pointer);
  Device* one = memo::gpu::device(device);
  if (one == nullptr || !one->free(address)) {
    memo::gpu::misuse(memo::gpu::owner_of(address) != nullptr
                          ? "free on the wrong device of"
                          : "free of what is not alive (a second free, or not from here):",
                      pointer);
  }
}

MEMO_CUDA void memomalloc_cuda_record_stream(void* pointer, void* stream) {
  const auto address = reinterpret_cast<Address>(pointer);
  Device* one = memo::gpu::owner_of(address);
  if (one == nullptr) {
    return;
  }
  memo::gpu::Context context = one->context();
  if (stream != nullptr) {
    memo::gpu::library().driver.stream_context(stream, &context);
    one->record_stream(address, {context, stream});
    return;
  }
  // torch does not say of which device: each has a default stream.
  memo::gpu::each_device(-1, [&](const Device& other) {
    if (other.context() != nullptr) {
      one->record_stream(address, {other.context(), stream});
    }
  });
}

MEMO_CUDA void* memomalloc_cuda_base_alloc(void* pointer, std::size_t* size) {
  Device* one = memo::gpu::owner_of(reinterpret_cast<Address>(pointer));
  if (size != nullptr) {
    *size = one != nullptr ? one->size_of(reinterpret_cast<Address>(pointer)) : 0;
  }
  return pointer;
}

MEMO_CUDA void memomalloc_cuda_init(int /*device_count*/) {}

MEMO_CUDA void memomalloc_cuda_reset() {
  memo::gpu::each_device(-1, [](Device& one) { one.give_back(); });
}

MEMO_CUDA void memomalloc_cuda_memory_fraction(double fraction, int device) {
  if (Device* one = memo::gpu::device(device)) {
    one->limit(fraction);
  }
}

// torch passes its MempoolId_t, two 64-bit numbers, in two registers, and the filter by reference.
MEMO_CUDA void memomalloc_cuda_begin_pool(int device, PoolId id,
                                          memo::gpu::ForeignFilter::Layout* takes) {
  if (Device* one = memo::gpu::device(device)) {
    const auto filter = std::make_shared<memo::gpu::ForeignFilter>(*takes);
    one->begin_pool(id, [filter](void* stream) { return (*filter)(stream); });
  }
}

MEMO_CUDA void memomalloc_cuda_end_pool(int device, PoolId id) {
  if (Device* one = memo::gpu::device(device)) {
    one->end_pool(id);
  }
}

MEMO_CUDA void memomalloc_cuda_release_pool(int device, PoolId id) {
  if (Device* one = memo::gpu::device(device)) {
    one->release_pool(id);
  }
}

// Why no GPU can be served here, for people; "" where all can. The driver is not started by this:
// what needs that is asked in a child. The text stays.
MEMO_CUDA const char* memomalloc_cuda_problem() {
  static const std::string* const kProblem = new std::string(memo::gpu::problem_of_gpus());
  return kProblem->c_str();
}

// The device's figures as JSON, {} before its first block: the length of the text, of which as much
// as fits is written.
MEMO_CUDA std::size_t memomalloc_cuda_stats_json(int device, char* buffer, std::size_t size) {
  Device* one = memo::gpu::device_in_use(device);
  const std::string text = one != nullptr ? one->statistics() : "{}";
  if (size != 0) {
    const std::size_t written = text.size() < size ? text.size() : size - 1;
    std::memcpy(buffer, text.data(), written);
    buffer[written] = '\0';
  }
  return text.size();
}

// Shows a device that torch's own allocator serves in the page of statistics: what it holds now and
// held at most, what is alive and was at most, and what a plan would need; in bytes.
MEMO_CUDA void memomalloc_cuda_observed(int device, const std::uint64_t figures[5]) {
  memo::StatusDevice row;
  memo::put_text(row.phase, "observed");
  row.number = static_cast<std::uint64_t>(device);
  row.reserved_bytes = figures[0];
  row.peak_reserved_bytes = figures[1];
  row.alive_bytes = figures[2];
  row.peak_alive_bytes = figures[3];
  row.plan_bytes = figures[4];
  memo::gpu::keeper().observed(row);
}

MEMO_CUDA void memomalloc_cuda_reset_peaks(int device) {
  if (Device* one = memo::gpu::device_in_use(device)) {
    one->reset_peaks();
  }
}

// All devices' where `device` is negative.
MEMO_CUDA void memomalloc_cuda_release(int device) {
  memo::gpu::each_device(device, [](Device& one) { one.give_back(); });
}

MEMO_CUDA int memomalloc_cuda_sleep(int device, int keep) {
  bool all = true;
  memo::gpu::each_device(device, [&](Device& one) { all = one.sleep(keep != 0) && all; });
  return all ? 0 : -1;
}

MEMO_CUDA int memomalloc_cuda_wake(int device) {
  bool all = true;
  memo::gpu::each_device(device, [&](Device& one) { all = one.wake() && all; });
  return all ? 0 : -1;
}

}  // extern "C"
