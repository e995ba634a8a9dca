// See resident.h. Hot.
#include "src/base/resident.h"

#include <algorithm>

#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/whole_pages.h"

namespace memo::os {

Residents::Residents(const void* start, std::uint64_t bytes)
    : at_(WholePages(start, bytes).first),
      end_(WholePages(start, bytes).end),
      told_(at_ >= end_ || !confined()) {}

bool Residents::fill() {
  const std::uint64_t page = page_size();
  if (!told_ || at_ >= end_) {
    return false;
  }
  const std::uint64_t bytes =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(end_ - at_), kAtOnce * page);
  KeepErrno keep;
  told_ = tell_resident(at_, bytes / page, pages_);
  first_ = 0;
  count_ = told_ ? bytes / page : 0;
  return told_;
}

bool Residents::next(Stretch& stretch) {
  stretch = {};
  for (;;) {
    if (first_ == count_ && !fill()) {
      return stretch.bytes != 0 && told_;
    }
    const bool there = (pages_[first_] & 1) != 0;
    if (stretch.bytes != 0 && there != stretch.there) {
      return true;
    }
    std::size_t last = first_;
    while (last < count_ && ((pages_[last] & 1) != 0) == there) {
      ++last;
    }
    const std::uint64_t bytes = (last - first_) * page_size();
    stretch = {stretch.bytes == 0 ? at_ : stretch.start, stretch.bytes + bytes, there};
    at_ += bytes;
    first_ = last;
    if (first_ != count_) {
      return true;
    }
  }
}

}  // namespace memo::os
