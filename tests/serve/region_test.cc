// Where the reservation lies.
#include <sys/mman.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "src/base/os.h"
#include "src/serve/space.h"

namespace memo {
namespace {

constexpr std::uint64_t kGib = 1ULL << 30;
constexpr std::uint64_t kLibraries = 16 * kGib;

std::uint64_t map_libraries() {
  void* got =
      mmap(nullptr, kLibraries, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(got != MAP_FAILED);
  return reinterpret_cast<std::uint64_t>(got);
}

TEST_CASE("region: what is mapped later lies beside what was mapped before", "[serve]") {
  const std::uint64_t before = map_libraries();
  constexpr std::uint64_t kSpaces = 4;
  constexpr std::uint64_t kSpace = 64 * kGib;
  std::vector<Space> spaces(kSpaces);
  Region region;
  REQUIRE(region.reserve(spaces.data(), 1, kSpaces, kSpace, kSpace, true));
  const std::uint64_t after = map_libraries();
  CHECK(std::max(before, after) - std::min(before, after) < kSpaces * kSpace);
  for (const std::uint64_t start : {before, after}) {
    munmap(reinterpret_cast<void*>(start), kLibraries);
  }
  for (const os::Reserved& part : region.reserved()) {
    os::unmap(reinterpret_cast<void*>(part.start), part.bytes);
  }
}

}  // namespace
}  // namespace memo
