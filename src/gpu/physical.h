// The physical memory of one device: handles of a few sizes, each mapped at one place at most.
// Under the device's lock. Cold: every call here goes to the driver and takes tens of microseconds.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "src/gpu/driver.h"

namespace memo::gpu {

class Physical {
 public:
  // Of the device with this number; all of `device_count` devices that can reach it may.
  Physical(const Driver& driver, int device, int device_count);

  // A handle of `bytes`, a multiple of granularity(): a spare one, or a new one. 0 where the limit
  // or the driver refuses.
  Handle take(std::uint64_t bytes);
  // Takes back a handle that is mapped nowhere; it is kept for take().
  void give(Handle handle, std::uint64_t bytes) { spare_[bytes].push_back(handle); }
  // Returns to the driver what is mapped nowhere.
  void drop_spare();

  // The handles lie one behind the other at `address`, `bytes` each. False, with nothing mapped,
  // where the driver refuses.
  bool map(Address address, std::uint64_t bytes, const std::vector<Handle>& handles);
  void unmap(Address address, std::uint64_t bytes);

  // Most bytes that handles may have; UINT64_MAX: no limit but the device's.
  void limit(std::uint64_t bytes) { limit_ = bytes; }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
  [[nodiscard]] std::uint64_t peak() const { return peak_; }
  [[nodiscard]] bool has_spare(std::uint64_t bytes) const;
  void reset_peak() { peak_ = reserved_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t granularity() const { return granularity_; }
  // Calls of the driver that changed mappings.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  // The driver's latest refusal; kSuccess: the limit refused, or nothing did.
  [[nodiscard]] int error() const { return error_; }
  void set_error(int error) { error_ = error; }

 private:
  int open(Address address, std::uint64_t bytes);  // to all that may; the driver's error

  const Driver& driver_;
  AllocationProperties properties_;
  std::vector<AccessRight> rights_;
  std::map<std::uint64_t, std::vector<Handle>> spare_;  // by size
  std::uint64_t granularity_ = std::uint64_t{2} << 20;
  std::uint64_t total_ = 0;
  std::uint64_t limit_ = UINT64_MAX;
  std::uint64_t reserved_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t calls_ = 0;
  int error_ = kSuccess;
};

}  // namespace memo::gpu
