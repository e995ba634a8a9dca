// The region: one reservation of addresses, cut into spaces of equal size. Hot. One range check
// tells whether a pointer is ours, one shift tells whose (src/serve/space.h has the drawing).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "src/base/lock_all.h"
#include "src/serve/space.h"

namespace memo {

class Region {
 public:
  constexpr Region() = default;

  // Reserves `count` spaces, the first `pools` of them for arenas, of `most` bytes each (a power of
  // two), or of less, down to `least`, where addresses are scarce, and makes them in `spaces`,
  // memory that outlives this; false, and nothing is taken, if the system refuses. `bare`: as
  // Space::open(). Once.
  bool reserve(Space* spaces, std::uint64_t pools, std::uint64_t count, std::uint64_t most,
               std::uint64_t least, bool bare);
  // From now on addresses are owned, and others see what was written before.
  void publish();

  [[nodiscard]] bool opened() const { return base_.load(std::memory_order_acquire) != kNowhere; }
  [[nodiscard]] bool owns(const void* pointer) const {
    // The size is published last and read first: while it is zero, nothing is owned.
    const std::uint64_t bytes = bytes_.load(std::memory_order_acquire);
    return offset_of(pointer) < bytes;
  }
  // Lowest address; UINT64_MAX before publish().
  [[nodiscard]] std::uint64_t base() const { return base_.load(std::memory_order_relaxed); }
  // Lowest address of the spaces' tables, Space::record_bytes() of each.
  [[nodiscard]] char* tables() const { return tables_; }
  // All that is reserved: of the spaces, and of their tables. Once opened.
  [[nodiscard]] std::array<os::Reserved, 2> reserved() const;
  // True if a block of `bytes` (at least 1) may fit into a space.
  [[nodiscard]] bool fits(std::uint64_t bytes) const { return bytes >> shift_ == 0; }

  // The number of the space that the pointer, which is owned, lies in.
  [[nodiscard]] std::uint32_t number_of(const void* pointer) const {
    return static_cast<std::uint32_t>(offset_of(pointer) >> shift_);
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // What of [start, start + bytes) lies in the region.
  [[nodiscard]] os::Reserved part_of(const void* start, std::uint64_t bytes) const {
    const std::uint64_t all = bytes_.load(std::memory_order_acquire);
    const auto from = reinterpret_cast<std::uint64_t>(start);
    const std::uint64_t first = std::max(from, base());
    const std::uint64_t end = std::min(from + std::min(bytes, UINT64_MAX - from), base() + all);
    return first < end && all != 0 ? os::Reserved{first, end - first} : os::Reserved{};
  }
  [[nodiscard]] Space& at(std::uint64_t number) const { return spaces_[number]; }

 private:
  static constexpr std::uint64_t kNowhere = UINT64_MAX;
  [[nodiscard]] std::uint64_t offset_of(const void* pointer) const {
    return reinterpret_cast<std::uint64_t>(pointer) - base();
  }

  std::atomic<std::uint64_t> base_{kNowhere};
  std::atomic<std::uint64_t> bytes_{0};
  std::uint32_t shift_ = 0;  // log2 of a space's bytes
  Space* spaces_ = nullptr;
  char* tables_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace memo
