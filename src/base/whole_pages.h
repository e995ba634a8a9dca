// The whole pages inside a range of addresses: all that the system can be told something about.
#pragma once

#include <cstdint>

#include "src/base/bits.h"
#include "src/base/os.h"

namespace memo::os {

struct WholePages {
  WholePages(const void* start, std::uint64_t bytes)
      : first(reinterpret_cast<char*>(round_up(address(start), page_size()))),
        end(reinterpret_cast<char*>(round_down(address(start) + bytes, page_size()))) {}
  [[nodiscard]] bool any() const { return first < end; }
  // Where there are any.
  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(end - first); }

  char* first;
  char* end;

 private:
  static std::uint64_t address(const void* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
  }
};

}  // namespace memo::os
