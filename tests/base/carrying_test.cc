// Memory that is copied, and given back as it is copied.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/os.h"
#include "tests/support/skip.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

using testing::holds;

constexpr std::uint64_t kBytes = 5 << 20;

// Two places of kBytes in memory of the test's own, the first one written.
struct Places {
  char* const from = static_cast<char*>(os::map(3 * kBytes));
  char* const to = from + 2 * kBytes;
  Places() {
    REQUIRE(from != nullptr);
    std::memset(from, 7, 2 * kBytes);
  }
  ~Places() { os::unmap(from, 3 * kBytes); }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
};

TEST_CASE("carrying: the old place has no memory afterwards") {
  const Places places;
  CHECK(os::carry(places.from, places.to, kBytes));
  CHECK(holds(places.to, kBytes, 7));
  CHECK(testing::resident_bytes(places.from, kBytes) == 0);
  CHECK(holds(places.from, kBytes, 0));
  CHECK(holds(places.from + kBytes, kBytes, 7));
}

TEST_CASE("carrying: what is locked is copied, and stays") {
  const Places places;
  // The system call itself: the sanitizers make mlock() do nothing.
  if (syscall(SYS_mlock, places.from + (3 << 20), os::page_size()) != 0) {
    testing::skip("no memory can be locked");
    return;
  }
  CHECK_FALSE(os::carry(places.from, places.to, kBytes));
  CHECK(holds(places.to, kBytes, 7));
  CHECK(testing::resident_bytes(places.from + (3 << 20), os::page_size()) == os::page_size());
}

TEST_CASE("carrying: a place is bare if less than half of it has memory") {
  char* const area = static_cast<char*>(os::map(64 << 20));
  REQUIRE(area != nullptr);
  const std::uint64_t bytes = GENERATE(std::uint64_t{64 << 10}, std::uint64_t{64 << 20});
  CHECK(os::is_bare(area, bytes));
  std::memset(area, 1, bytes / 8 * 3);
  CHECK(os::is_bare(area, bytes));
  std::memset(area, 1, bytes / 8 * 5);
  CHECK_FALSE(os::is_bare(area, bytes));
  os::unmap(area, 64 << 20);
}

}  // namespace
}  // namespace memo
