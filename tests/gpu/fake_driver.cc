// See fake_driver.h.
#include "tests/gpu/fake_driver.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "src/gpu/driver.h"

namespace fake {
namespace {
std::recursive_mutex g_lock;
constexpr int kOutOfMemory = 2;
constexpr int kInvalid = 1;
constexpr int kNotInitialized = 3;
constexpr int kNoContext = 201;
constexpr int kInvalidHandle = 400;
constexpr int kNotReady = 600;
constexpr int kCaptureUnsupported = 900;
constexpr int kCapturedEvent = 907;

bool g_initialized = false;  // cuInit was called

// Of the calling thread; devices have one each, the address is its number + 1.
thread_local std::vector<void*> t_contexts;

// The thread's capture mode, as cuda.h numbers it: what a thread in another one than relaxed may
// not call while a stream is captured, whichever thread captures.
constexpr int kRelaxed = 2;
thread_local int t_mode = 0;

// The device whose context is current; -1: none is.
int current() {
  return t_contexts.empty()
             ? -1
             : static_cast<int>(reinterpret_cast<std::intptr_t>(t_contexts.back())) - 1;
}

// The null stream is that of the current context.
Stream own(Stream stream) {
  return stream == nullptr && current() == 1 ? kSecondDefault : stream;
}

int device_of(Stream stream) {
  const auto found = world().device_of.find(stream);
  return stream == kSecondDefault || (found != world().device_of.end() && found->second == 1) ? 1
                                                                                              : 0;
}
}  // namespace

World& world() {
  static auto* one = [] {
    auto* made = new World;
    const char* mib = std::getenv("FAKE_CUDA_MIB");
    const bool is_real = std::getenv("FAKE_CUDA_REAL") != nullptr;
    made->restart((mib != nullptr ? std::strtoull(mib, nullptr, 10) : 1024) << 20, is_real);
    made->fatal = is_real;
    if (const char* at = std::getenv("FAKE_CUDA_REFUSE")) {
      made->refuse_at = std::strtoull(at, nullptr, 10);
    }
    made->refuse_ever = std::getenv("FAKE_CUDA_REFUSE_EVER") != nullptr;
    made->has_virtual_memory = std::getenv("FAKE_CUDA_OLD") == nullptr;
    if (const char* slow = std::getenv("FAKE_CUDA_SLOW")) {
      made->slow = static_cast<unsigned>(std::strtoul(slow, nullptr, 10));
    }
    return made;
  }();
  return *one;
}

void World::restart(std::uint64_t bytes, bool is_real) {
  if (file >= 0) {
    close(file);
  }
  for (const auto& [address, size] : reserved) {
    munmap(address, size);
  }
  *this = World();
  memory = bytes;
  real = is_real;
  process = getpid();
  if (real) {
    file = memfd_create("device memory", MFD_CLOEXEC);
  }
}

void World::fault(const std::string& text) {
  if (fatal) {
    std::fprintf(stderr, "fake CUDA driver: %s\n", text.c_str());
    std::abort();
  }
  faults.push_back(text);
}

bool World::capturing() const {
  return std::any_of(queues.begin(), queues.end(),
                     [](const auto& one) { return one.second.capturing; });
}

bool World::refused() {
  ++occasions;
  return refuse_at != 0 && (refuse_ever ? occasions >= refuse_at : occasions == refuse_at);
}

void World::progress(std::mt19937_64& random) {
  for (auto& [stream, queue] : queues) {
    if (random() % 4 == 0 && queue.done < queue.issued) {
      queue.done += random() % (queue.issued - queue.done) + 1;
    }
  }
  std::erase_if(uses, [&](const Use& use) { return done(use.stream, use.ticket); });
}

void World::freed(Address lower, std::vector<Use> work) {
  blocks.erase(lower);
  uses.insert(uses.end(), work.begin(), work.end());
}

bool World::disturbed(Address lower, Address upper, Stream stream) {
  for (const Use& use : uses) {
    if (use.stream != stream && use.lower < upper && lower < use.upper &&
        !done(use.stream, use.ticket)) {
      return true;
    }
  }
  return inhabited(lower, upper);
}

bool World::unfinished(Address lower, Address upper) {
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    return use.lower < upper && lower < use.upper && !done(use.stream, use.ticket);
  });
}

bool World::inhabited(Address lower, Address upper) const {
  const auto next = blocks.lower_bound(lower);
  return (next != blocks.end() && next->first < upper) ||
         (next != blocks.begin() && std::prev(next)->second > lower);
}

bool World::mapped(Address lower, Address upper) const {
  while (lower < upper) {
    const auto after = mappings.upper_bound(lower);
    if (after == mappings.begin() || std::prev(after)->second.upper <= lower ||
        !std::prev(after)->second.accessible) {
      return false;
    }
    lower = std::prev(after)->second.upper;
  }
  return true;
}

}  // namespace fake

#define FAKE extern "C" __attribute__((visibility("default"))) int
using fake::Address;
using fake::Stream;
using fake::world;

// Each call is serialized, counted, and fails in a forked child as the driver's own does.
#define ENTER_FIRST                                                \
  const std::lock_guard<std::recursive_mutex> guard(fake::g_lock); \
  fake::World& w = world();                                        \
  ++w.calls;                                                       \
  if (getpid() != w.process) {                                     \
    return fake::kNotInitialized;                                  \
  }
// Each but cuInit.
#define ENTER                     \
  ENTER_FIRST                     \
  if (!fake::g_initialized) {     \
    return fake::kNotInitialized; \
  }
// The driver ends the capture, and with it the program's graph.
#define NOT_IN_A_CAPTURE                                            \
  if (fake::t_mode != fake::kRelaxed && w.capturing()) {            \
    w.fault(std::string(__func__) + " while a stream is captured"); \
    return fake::kCaptureUnsupported;                               \
  }
#define MAY_REFUSE(error) \
  if (w.refused()) {      \
    return error;         \
  }

// How often the driver was called, and how many contexts there are, in the process.
FAKE fakeCalls() {
  return static_cast<int>(world().calls);
}
FAKE fakeContexts() {
  return static_cast<int>(world().contexts.size());
}

FAKE cuInit(unsigned) {
  ENTER_FIRST;
  fake::g_initialized = true;
  return 0;
}
FAKE cuDeviceGetCount(int* count) {
  ENTER;
  *count = fake::kDevices;
  return 0;
}
FAKE cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER;
  *value = attribute != memo::gpu::kHasVirtualMemory || w.has_virtual_memory ? 1 : 0;
  return 0;
}
FAKE cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  ENTER;
  *bytes = w.memory;
  return 0;
}
FAKE cuDeviceCanAccessPeer(int* can, int, int) {
  ENTER;
  *can = w.peers ? 1 : 0;
  return 0;
}
FAKE cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER;
  MAY_REFUSE(fake::kOutOfMemory);
  w.contexts.insert(device);
  *context = reinterpret_cast<void*>(std::intptr_t{device} + 1);
  return 0;
}
FAKE cuCtxPushCurrent_v2(void* context) {
  ENTER;
  fake::t_contexts.push_back(context);
  return 0;
}
FAKE cuCtxPopCurrent_v2(void** context) {
  ENTER;
  *context = fake::t_contexts.empty() ? nullptr : fake::t_contexts.back();
  if (!fake::t_contexts.empty()) {
    fake::t_contexts.pop_back();
  }
  return 0;
}
FAKE cuCtxSynchronize() {
  ENTER;
  if (w.capturing()) {  // in whatever mode
    w.fault("cuCtxSynchronize while a stream is captured");
    return fake::kCaptureUnsupported;
  }
  for (auto& [stream, queue] : w.queues) {
    if (fake::device_of(stream) == fake::current()) {
      w.finish(stream);
    }
  }
  std::erase_if(w.uses, [&](const fake::Use& use) { return w.done(use.stream, use.ticket); });
  return 0;
}
FAKE cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  ENTER;
  if (fake::current() < 0) {
    return fake::kNoContext;
  }
  *free = w.memory - w.used_by[fake::current()];
  *total = w.memory;
  return 0;
}
FAKE cuMemGetAllocationGranularity(std::size_t* bytes, const memo::gpu::AllocationProperties*,
                                   int) {
  ENTER;
  *bytes = w.granularity;
  return 0;
}
FAKE cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t alignment, Address,
                         std::uint64_t) {
  ENTER;
  NOT_IN_A_CAPTURE;
  MAY_REFUSE(fake::kOutOfMemory);
  if (w.addresses + bytes > fake::kAddresses) {
    return fake::kOutOfMemory;
  }
  w.addresses += bytes;
  if (w.real) {
    // Aligned by hand: the driver's alignment is its own.
    const std::size_t room = bytes + alignment;
    void* got = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) {
      return fake::kOutOfMemory;
    }
    w.reserved.emplace_back(got, room);
    *address = (reinterpret_cast<Address>(got) + alignment - 1) / alignment * alignment;
    return 0;
  }
  *address = w.next_address;
  w.next_address += bytes;
  return 0;
}
FAKE cuMemCreate(std::uint64_t* handle, std::size_t bytes,
                 const memo::gpu::AllocationProperties* properties, std::uint64_t) {
  ENTER;
  NOT_IN_A_CAPTURE;
  MAY_REFUSE(fake::kOutOfMemory);
  if (w.no_handle != 0) {
    return w.no_handle;
  }
  usleep(w.slow * 1000);
  const int device = properties->location.id;
  if (w.used_by[device] + bytes > w.memory) {
    return fake::kOutOfMemory;
  }
  if (bytes % (std::size_t{2} << 20) != 0) {
    w.fault("cuMemCreate of no whole chunk");
    return fake::kInvalid;
  }
  w.used += bytes;
  w.used_by[device] += bytes;
  *handle = w.next_handle++;
  if (w.real && ftruncate(w.file, static_cast<off_t>(w.file_end + bytes)) != 0) {
    return fake::kOutOfMemory;
  }
  w.handles[*handle] = {bytes, w.file_end, false, device};
  w.file_end += bytes;
  return 0;
}
FAKE cuMemRelease(std::uint64_t handle) {
  ENTER;
  NOT_IN_A_CAPTURE;
  const auto found = w.handles.find(handle);
  if (found == w.handles.end() || found->second.mapped) {
    w.fault("cuMemRelease of what is mapped or is not there");
    return fake::kInvalid;
  }
  w.used -= found->second.bytes;
  w.used_by[found->second.device] -= found->second.bytes;
  if (w.real) {
    (void)fallocate(w.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(found->second.place),
                    static_cast<off_t>(found->second.bytes));
  }
  w.handles.erase(found);
  return 0;
}
FAKE cuMemMap(Address address, std::size_t bytes, std::size_t, std::uint64_t handle,
              std::uint64_t) {
  ENTER;
  NOT_IN_A_CAPTURE;
  MAY_REFUSE(fake::kOutOfMemory);
  const auto found = w.handles.find(handle);
  const auto next = w.mappings.lower_bound(address);
  if (found == w.handles.end() || found->second.mapped || found->second.bytes != bytes ||
      (next != w.mappings.end() && next->first < address + bytes) ||
      (next != w.mappings.begin() && std::prev(next)->second.upper > address)) {
    w.fault("cuMemMap twice, or of no handle");
    return fake::kInvalid;
  }
  if (w.real) {
    mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, w.file,
         static_cast<off_t>(found->second.place));
  }
  found->second.mapped = true;
  w.mappings[address] = {address + bytes, handle, false, {}};
  return 0;
}
FAKE cuMemUnmap(Address address, std::size_t bytes) {
  ENTER;
  NOT_IN_A_CAPTURE;
  if (w.unfinished(address, address + bytes) ||
      (!w.asleep && w.inhabited(address, address + bytes))) {
    w.fault("cuMemUnmap under a block that is alive or unfinished work");
  }
  for (Address at = address; at < address + bytes;) {
    const auto found = w.mappings.find(at);
    if (found == w.mappings.end()) {
      w.fault("cuMemUnmap of what is not mapped");
      return fake::kInvalid;
    }
    at = found->second.upper;
    w.handles[found->second.handle].mapped = false;
    w.mappings.erase(found);
  }
  if (w.real) {
    mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  return 0;
}
FAKE cuMemSetAccess(Address address, std::size_t bytes, const memo::gpu::AccessRight* rights,
                    std::size_t count) {
  ENTER;
  NOT_IN_A_CAPTURE;
  MAY_REFUSE(fake::kOutOfMemory);
  if (w.refuse_peers && count > 1) {
    return fake::kInvalid;
  }
  for (auto at = w.mappings.find(address); at != w.mappings.end() && at->first < address + bytes;
       ++at) {
    for (std::size_t i = 0; i < count; ++i) {
      at->second.devices.insert(rights[i].location.id);
    }
    at->second.accessible = at->second.devices.contains(w.handles[at->second.handle].device);
  }
  if (w.real) {
    mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  }
  return 0;
}
FAKE cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  ENTER;
  NOT_IN_A_CAPTURE;
  MAY_REFUSE(fake::kInvalid);
  if (!w.mapped(from, from + bytes) || w.unfinished(from, from + bytes)) {
    w.fault("cuMemcpyDtoH_v2 of what is not mapped, or before the work on it is done");
    return fake::kInvalid;
  }
  if (w.real) {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  }
  return 0;
}
FAKE cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  ENTER;
  NOT_IN_A_CAPTURE;
  MAY_REFUSE(fake::kInvalid);
  if (!w.mapped(to, to + bytes)) {
    w.fault("cuMemcpyHtoD_v2 to what is not mapped");
    return fake::kInvalid;
  }
  // From memory that is not pinned it may return before all is there.
  const Stream stream = fake::own(nullptr);
  w.uses.push_back({to, to + bytes, stream, w.issue(stream)});
  if (w.real) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  return 0;
}
FAKE cuEventCreate(void** event, unsigned) {
  ENTER;
  MAY_REFUSE(fake::kOutOfMemory);
  if (fake::current() < 0) {
    return fake::kNoContext;
  }
  *event = reinterpret_cast<void*>(w.next_event++);
  w.events[*event] = {fake::current(), nullptr, 0, false};
  return 0;
}
#define FIND_EVENT(event)                                              \
  const auto found = w.events.find(event);                             \
  if (found == w.events.end()) {                                       \
    w.fault(std::string(__func__) + " of an event that is not there"); \
    return fake::kInvalidHandle;                                       \
  }                                                                    \
  fake::World::Event& one = found->second;
FAKE cuEventDestroy_v2(void* event) {
  ENTER;
  FIND_EVENT(event);
  (void)one;
  w.events.erase(found);
  return 0;
}
FAKE cuEventRecord(void* event, Stream given) {
  ENTER;
  MAY_REFUSE(fake::kInvalid);
  FIND_EVENT(event);
  const Stream stream = fake::own(given);
  if (one.device != fake::device_of(stream)) {
    return fake::kInvalidHandle;
  }
  if (w.queues[stream].capturing) {
    w.fault("cuEventRecord into a graph");
  }
  one.captured = w.capture_next;
  w.queues[stream].capturing = w.queues[stream].capturing || w.capture_next;
  w.capture_next = false;
  one.stream = stream;
  one.ticket = w.queues[stream].issued;
  return 0;
}
FAKE cuEventQuery(void* event) {
  ENTER;
  NOT_IN_A_CAPTURE;
  FIND_EVENT(event);
  if (one.captured) {
    return fake::kCapturedEvent;
  }
  return w.done(one.stream, one.ticket) ? 0 : fake::kNotReady;
}
FAKE cuStreamSynchronize(Stream given) {
  ENTER;
  NOT_IN_A_CAPTURE;
  const Stream stream = fake::own(given);
  if (w.queues[stream].capturing) {
    w.fault("cuStreamSynchronize of a stream that is captured");
    return fake::kCaptureUnsupported;
  }
  w.finish(stream);
  return 0;
}
FAKE cuStreamGetCtx(Stream given, void** context) {
  ENTER;
  *context = reinterpret_cast<void*>(std::intptr_t{fake::device_of(fake::own(given))} + 1);
  return 0;
}
FAKE cuStreamIsCapturing(Stream given, int* state) {
  ENTER;
  *state = w.queues[fake::own(given)].capturing ? 1 : 0;
  return 0;
}
FAKE cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER;
  std::swap(fake::t_mode, *mode);
  return 0;
}
FAKE cuGetErrorName(int error, const char** name) {
  *name = error == fake::kOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == fake::kNotInitialized ? "CUDA_ERROR_NOT_INITIALIZED"
          : error == fake::kInvalid        ? "CUDA_ERROR_INVALID_VALUE"
                                           : "CUDA_ERROR_UNKNOWN";
  return 0;
}
