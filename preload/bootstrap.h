// Memory for the few allocations that dlsym makes while it is looking for the underlying allocator. Hot.
// One thread only: the process has no other yet. Blocks are never reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace memo {

class Bootstrap {
 public:
  // Zeroed memory, or nullptr when the arena is used up; `alignment` is a power of two up to 4096.
  void* allocate(std::size_t size, std::size_t alignment = 16) {
    const auto base = reinterpret_cast<std::uintptr_t>(memory_);
    const std::uintptr_t start =
        (base + used_ + sizeof(std::size_t) + alignment - 1) & ~(alignment - 1);
    if (size > sizeof memory_ || start + size > base + sizeof memory_) {
      return nullptr;
    }
    used_ = start + size - base;
    auto* block = reinterpret_cast<char*>(start);
    std::memcpy(block - sizeof size, &size, sizeof size);
    return block;
  }
  [[nodiscard]] bool owns(const void* pointer) const {
    return pointer >= memory_ && pointer < memory_ + sizeof memory_;
  }
  [[nodiscard]] static std::size_t size(const void* block) {
    std::size_t size = 0;
    std::memcpy(&size, static_cast<const char*>(block) - sizeof size, sizeof size);
    return size;
  }
  // Lowest address of a block; UINT64_MAX if there is none.
  [[nodiscard]] std::uint64_t lowest() const {
    return used_ == 0 ? UINT64_MAX : reinterpret_cast<std::uint64_t>(memory_);
  }

 private:
  alignas(16) char memory_[32 * 1024] = {};
  std::size_t used_ = 0;
};

}  // namespace memo
