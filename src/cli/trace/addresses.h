// Addresses without memory, for the engine to place blocks at that nobody writes to. Cold.
#pragma once

#include <cstdint>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/lane.h"

namespace memo::cli {

// Addresses of their own for a pool or a slab, without memory.
class Addresses {
 public:
  bool open(std::uint64_t bytes) {
    bytes_ = bytes;
    base_ = static_cast<char*>(os::reserve(bytes, tuning::kMaxAlignment));
    records_ = static_cast<char*>(os::reserve(Space::record_bytes(bytes), os::page_size()));
    if (base_ == nullptr || records_ == nullptr) {
      return false;
    }
    space.open(base_, records_, bytes, true);
    return true;
  }
  Addresses() = default;
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() {
    if (base_ != nullptr) {
      os::unmap(base_, bytes_);
    }
    if (records_ != nullptr) {
      os::unmap(records_, Space::record_bytes(bytes_));
    }
  }

  Space space;

 private:
  char* base_ = nullptr;
  char* records_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace memo::cli
