#include "src/serve/region.h"

#include <new>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// Of one space's tables.
std::uint64_t record_bytes(std::uint64_t space) {
  return round_up(Space::record_bytes(space), os::page_size());
}

}  // namespace

bool Region::reserve(Space* spaces, std::uint64_t pools, std::uint64_t count, std::uint64_t most,
                     std::uint64_t least, bool bare) {
  for (std::uint64_t space = most; space >= least; space /= 2) {
    const std::uint64_t record = record_bytes(space);
    const std::uint64_t apart = count * space / tuning::kApartShare;
    auto* base = static_cast<char*>(os::reserve(count * space, tuning::kMaxAlignment, apart));
    auto* records = base == nullptr
                        ? nullptr
                        : static_cast<char*>(os::reserve(count * record, os::page_size(), apart));
    if (records == nullptr) {
      if (base != nullptr) {
        os::unmap(base, count * space);
      }
      continue;
    }
    const bool sparing = os::counts_commitments();
    for (std::uint64_t i = 0; i < count; ++i) {
      new (spaces + i) Space;
      if (sparing) {
        spaces[i].be_sparing();
      }
      spaces[i].open(base + i * space, records + i * record, space, bare);
      spaces[i].join(spaces, count);
    }
    os::name_mapping(base, pools * space, "memomalloc pool");
    os::name_mapping(base + pools * space, (count - pools) * space, "memomalloc slab");
    os::name_mapping(records, count * record, "memomalloc tables");
    spaces_ = spaces;
    tables_ = records;
    count_ = count;
    shift_ = log2_floor(space);
    return true;
  }
  return false;
}

void Region::publish() {
  base_.store(reinterpret_cast<std::uint64_t>(spaces_->base()), std::memory_order_release);
  bytes_.store(count_ * spaces_->bytes(), std::memory_order_release);
}

std::array<os::Reserved, 2> Region::reserved() const {
  const std::uint64_t space = spaces_->bytes();
  return {os::Reserved{base(), count_ * space},
          os::Reserved{reinterpret_cast<std::uint64_t>(tables_), count_ * record_bytes(space)}};
}

}  // namespace memo
