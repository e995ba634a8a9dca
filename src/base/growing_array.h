// An array in reserved addresses, whose memory is committed as it grows: under strict overcommit
// and RLIMIT_DATA it counts as much as it holds. Hot. One thread grows it; a reader knows by other
// means that it is there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/os.h"

namespace memo {

template <typename Element>
class GrowingArray {
 public:
  // Reserves addresses for `capacity` elements, once; false where the system refuses. Once more in
  // a child that was forked in the middle of it: what its parent's thread had is left then.
  bool reserve(std::uint64_t capacity) {
    room_ = 0;
    elements_ = static_cast<Element*>(os::reserve(bytes(capacity), os::page_size()));
    capacity_ = elements_ == nullptr ? 0 : capacity;
    return elements_ != nullptr;
  }
  void release() {
    const GrowingArray released = *this;
    *this = GrowingArray();
    if (released.elements_ != nullptr) {
      os::unmap(released.elements_, bytes(released.capacity_));
    }
  }

  // Makes the first `count` elements usable, zero at first, and others with them, so that growing
  // one by one costs little. False beyond the capacity, or where the system refuses.
  bool grow(std::uint64_t count) {
    if (count <= room_) {
      return true;
    }
    if (count > capacity_) {
      return false;
    }
    const std::uint64_t from = bytes(room_);
    const std::uint64_t to = bytes(std::min(std::max(count, 2 * room_), capacity_));
    if (!os::commit(reinterpret_cast<char*>(elements_) + from, to - from)) {
      return false;
    }
    room_ = std::min(to / sizeof(Element), capacity_);
    MEMO_DCHECK(count <= room_);
    return true;
  }

  // The memory of all elements goes, and they are zero again.
  void give_back() const { os::purge(elements_, bytes(room_)); }

  [[nodiscard]] Element* data() const { return elements_; }

 private:
  // Whole pages.
  static std::uint64_t bytes(std::uint64_t count) {
    return round_up(count * sizeof(Element), os::page_size());
  }

  Element* elements_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t room_ = 0;  // elements that are usable
};

}  // namespace memo
