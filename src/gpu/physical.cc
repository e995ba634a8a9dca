// See physical.h. Cold.
#include "src/gpu/physical.h"

#include <algorithm>

#include "src/base/message.h"

namespace memo::gpu {

Physical::Physical(const Driver& driver, int device, int device_count) : driver_(driver) {
  properties_.location.id = device;
  int rdma = 0;
  if (driver.device_attribute(&rdma, kHasDirectRdma, device) == kSuccess && rdma != 0) {
    properties_.direct_rdma = 1;  // network cards may register the memory, as torch's own
  }
  rights_.push_back({.location = {.id = device}});
  for (int peer = 0; peer < device_count; ++peer) {
    int can = 0;
    if (peer != device && driver.can_access_peer(&can, peer, device) == kSuccess && can != 0) {
      rights_.push_back({.location = {.id = peer}});
    }
  }
  std::size_t bytes = 0;
  if (driver.granularity(&bytes, &properties_, 0) == kSuccess && bytes != 0) {
    granularity_ = bytes;
  }
  if (driver.total_memory(&bytes, device) == kSuccess) {
    total_ = bytes;
  }
}

Handle Physical::take(std::uint64_t bytes) {
  std::vector<Handle>& kept = spare_[bytes];
  if (!kept.empty()) {
    const Handle handle = kept.back();
    kept.pop_back();
    return handle;
  }
  error_ = kSuccess;
  if (bytes > limit_ || reserved_ > limit_ - bytes) {
    return 0;
  }
  Handle handle = 0;
  ++calls_;
  error_ = driver_.create(&handle, bytes, &properties_, 0);
  if (error_ != kSuccess) {
    return 0;
  }
  reserved_ += bytes;
  peak_ = std::max(peak_, reserved_);
  return handle;
}

bool Physical::has_spare(std::uint64_t bytes) const {
  const auto found = spare_.find(bytes);
  return found != spare_.end() && !found->second.empty();
}

void Physical::drop_spare() {
  for (auto& [bytes, handles] : spare_) {
    for (const Handle handle : handles) {
      driver_.release(handle);
      reserved_ -= bytes;
      ++calls_;
    }
    handles.clear();
  }
}

bool Physical::map(Address address, std::uint64_t bytes, const std::vector<Handle>& handles) {
  std::uint64_t mapped = 0;
  error_ = kSuccess;
  for (const Handle handle : handles) {
    ++calls_;
    error_ = driver_.map(address + mapped, bytes, 0, handle, 0);
    if (error_ != kSuccess) {
      break;
    }
    mapped += bytes;
  }
  if (error_ == kSuccess) {
    error_ = open(address, mapped);
  }
  if (error_ != kSuccess && mapped != 0) {
    driver_.unmap(address, mapped);
  }
  return error_ == kSuccess;
}

// A peer that the driver refuses would have each mapping refused.
int Physical::open(Address address, std::uint64_t bytes) {
  ++calls_;
  const int error = driver_.set_access(address, bytes, rights_.data(), rights_.size());
  if (error == kSuccess || rights_.size() == 1) {
    return error;
  }
  ++calls_;
  if (const int own = driver_.set_access(address, bytes, rights_.data(), 1); own != kSuccess) {
    return own;
  }
  rights_.resize(1);
  Line() << "cuda: no other GPU reaches the memory of GPU "
         << static_cast<std::uint64_t>(properties_.location.id) << " (" << driver_.name_of(error)
         << ")";
  return kSuccess;
}

void Physical::unmap(Address address, std::uint64_t bytes) {
  ++calls_;
  driver_.unmap(address, bytes);
}

}  // namespace memo::gpu
