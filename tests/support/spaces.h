// Memory for page maps and spaces of a test's own, given back at its end. For tests only.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/base/os.h"
#include "src/serve/page_map.h"
#include "src/serve/space.h"
#include "tests/support/skip.h"
#include "tests/support/units.h"

namespace memo {

inline constexpr std::uint64_t kMiB = 1 << 20;

}  // namespace memo

namespace memo::testing {

// A page map without memory behind it, and the tables of an index of its free runs.
class BareMap {
 public:
  explicit BareMap(Granules granules)
      : states_(granules.count() / 8 + 1),
        lengths_(granules.count()),
        tags_(granules.count() + 1),
        nodes_bytes_(FreeIndex::node_bytes(granules)),
        nodes_(os::reserve(nodes_bytes_, os::page_size())),
        map(reinterpret_cast<std::uint8_t*>(states_.data()), lengths_.data()) {
    index.open(map, granules, tags_.data(), static_cast<FreeIndex::Node*>(nodes_));
  }
  ~BareMap() { os::unmap(nodes_, nodes_bytes_); }
  BareMap(const BareMap&) = delete;
  BareMap& operator=(const BareMap&) = delete;

 private:
  std::vector<std::uint64_t> states_;  // words, for their alignment
  std::vector<std::uint32_t> lengths_;
  std::vector<FreeIndex::Tag> tags_;
  std::uint64_t nodes_bytes_;
  void* nodes_;

 public:
  PageMap map;
  FreeIndex index;
};

class OwnSpace {
 public:
  explicit OwnSpace(std::uint64_t bytes, std::uint64_t alignment = 64ULL << 20) : bytes_(bytes) {
    base_ = static_cast<char*>(os::reserve(bytes, alignment));
    records_ = static_cast<char*>(os::reserve(Space::record_bytes(bytes), os::page_size()));
    if (base_ == nullptr || records_ == nullptr) {
      std::abort();
    }
    space.open(base_, records_, bytes);
  }
  ~OwnSpace() {
    os::unmap(base_, bytes_);
    os::unmap(records_, Space::record_bytes(bytes_));
  }
  OwnSpace(const OwnSpace&) = delete;
  OwnSpace& operator=(const OwnSpace&) = delete;

  [[nodiscard]] const char* records() const { return records_; }

  Space space;

 private:
  std::uint64_t bytes_;
  char* base_;
  char* records_;
};

// Bytes of [start, start + bytes) that have memory behind them. Whole pages.
inline std::uint64_t resident_bytes(const void* start, std::uint64_t bytes) {
  const std::uint64_t page = os::page_size();
  std::vector<unsigned char> pages(bytes / page);
  if (mincore(const_cast<void*>(start), bytes, pages.data()) != 0) {
    return UINT64_MAX;
  }
  std::uint64_t count = 0;
  for (const unsigned char one : pages) {
    count += one & 1U;
  }
  return count * page;
}

// True if each of the bytes, at least one, is `byte`.
inline bool holds(const char* start, std::uint64_t bytes, char byte) {
  return *start == byte && std::memcmp(start, start + 1, bytes - 1) == 0;
}

// True if memory under the advice for huge pages comes in them here.
inline bool huge_pages_to_be_had() {
  auto* start = static_cast<char*>(os::reserve(os::kHugePage, os::kHugePage));
  if (start == nullptr || !os::commit(start, os::kHugePage)) {
    std::abort();
  }
  os::advise_huge(start, os::kHugePage, true);
  *start = 1;
  const bool huge = resident_bytes(start, os::kHugePage) == os::kHugePage;
  munmap(start, os::kHugePage);
  return huge;
}

// True if huge pages are made of small ones here; else the test is skipped.
inline bool collapses() {
  const bool can = os::can_collapse() && huge_pages_to_be_had();
  if (!can) {
    skip("this kernel makes no huge pages of small ones");
  }
  return can;
}

}  // namespace memo::testing
