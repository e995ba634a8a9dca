// Which part of some memory is there, as the kernel tells page by page (tell_resident()): nothing
// is read, so that it may be asked of memory that nobody may touch. What was swapped out counts as
// not there: give a stretch back before taking it for zeros. Hot; a look costs system calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace memo::os {

class Residents {
 public:
  // Of the whole pages inside [start, start + bytes).
  Residents(const void* start, std::uint64_t bytes);

  struct Stretch {
    char* start = nullptr;
    std::uint64_t bytes = 0;
    bool there = false;
  };
  // The next stretch of pages that are alike; false behind the last one, or where the system does
  // not tell, as it does not for a confined thread.
  bool next(Stretch& stretch);
  // So far it has told.
  [[nodiscard]] bool told() const { return told_; }

 private:
  static constexpr std::size_t kAtOnce = 256;  // pages, a byte each: the stack may be small
  bool fill();

  char* at_;
  char* end_;
  std::size_t first_ = 0;  // of `pages_` that no stretch had yet
  std::size_t count_ = 0;
  bool told_;
  unsigned char pages_[kAtOnce];
};

}  // namespace memo::os
