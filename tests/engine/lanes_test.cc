// How many lanes there are, and how large their spaces.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>

#include "src/base/os.h"
#include "src/engine/engine.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::Driver;
using testing::OwnEngine;

// All of the address space but so much; false where that is not possible.
bool keep_addresses(std::uint64_t bytes) {
  const auto take = [](std::uint64_t size) {
    return mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* kept = take(bytes);
  if (kept == MAP_FAILED) {
    return false;
  }
  for (std::uint64_t size = 1ULL << 46; size >= 1ULL << 31; size /= 2) {
    while (take(size) != MAP_FAILED) {
    }
  }
  return munmap(kept, bytes) == 0;
}

TEST_CASE("lanes: where addresses are scarce there are fewer, and then smaller spaces",
          "[engine]") {
  const std::uint64_t space =
      std::min(std::bit_ceil(os::physical_memory()), std::uint64_t{128} << 30);
  struct Scarce {
    std::uint64_t spaces;  // for which there are addresses
    std::uint32_t lanes;
    std::uint64_t smaller;  // times
  };
  // Some are for the pool's arenas, and for tables.
  const std::uint64_t more = Pool::useful_parts() + 2;
  const auto given =
      GENERATE_COPY(Scarce{128 + more, 128, 1}, Scarce{64 + more, 64, 1}, Scarce{32 + more, 64, 2});
  INFO("addresses for " << given.spaces);
  CHECK(testing::status_of_child([&] {
          if (!keep_addresses(given.spaces * space)) {
            return 1;
          }
          OwnEngine own;
          Driver driver(own.engine);
          driver.iterate({{65'536, 1}});
          return driver.passed_on == 0 && own.engine.lanes.possible() == given.lanes &&
                         own.engine.lanes.at(0).slab_space().bytes() * given.smaller == space
                     ? 0
                     : 2;
        }) == 0);
}

}  // namespace
}  // namespace memo
