// The CUDA driver, found by dlopen at first use: nothing links against it, and a machine without a
// GPU gets a message instead of a failed start. Cold.
//
// Source: the driver API's virtual memory management (cuMemCreate, cuMemMap), its events and its
// stream capture. The structures below have the layouts of cuda.h; only fields that are used have
// names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace memo::gpu {

using Address = std::uint64_t;  // of device memory
using Handle = std::uint64_t;   // of physical memory
using Context = void*;
using Stream = void*;
using Event = void*;

struct Location {
  int type = 1;  // a device
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // pinned
  int shared_as = 0;
  Location location;
  void* unused = nullptr;
  unsigned char compression = 0;
  unsigned char direct_rdma = 0;
  unsigned short usage = 0;
  unsigned char rest[4] = {};
};
struct AccessRight {
  Location location;
  int flags = 3;  // read and write
};

inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotReady = 600;
inline constexpr int kCapturedEvent = 907;  // recorded into a graph: it never passes
inline constexpr unsigned kWithoutTiming = 2;
inline constexpr int kHasVirtualMemory = 102;  // attributes of a device
inline constexpr int kHasDirectRdma = 110;

struct Driver {
#define DRIVER(name, symbol, parameters) int(*name) parameters = nullptr;
#include "src/gpu/driver.def"
#undef DRIVER

  // Fills the table from libcuda.so.1. Empty, or why that failed.
  [[nodiscard]] std::string load();
  // Initializes the driver: from now on it is known which GPUs the process sees, and a forked child
  // can use none. Empty, or why that failed.
  [[nodiscard]] std::string start() const;
  // The driver's own name of an error, such as CUDA_ERROR_OUT_OF_MEMORY.
  [[nodiscard]] std::string name_of(int error) const;
};

// While one lives, calls on the device go to its primary context, and calls that a capturing thread
// may not make are allowed: they are no part of the graph.
class Scope {
 public:
  Scope(const Driver& driver, Context context);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const Driver& driver_;
  bool pushed_;
  int mode_ = 2;  // relaxed; then the thread's own
};

}  // namespace memo::gpu
