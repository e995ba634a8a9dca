// What a space keeps of blocks that it no longer has.
#include <catch2/catch.hpp>

#include "tests/support/spaces.h"

namespace memo {
namespace {

TEST_CASE("space: the records of what is given up go back, and are zeros", "[serve]") {
  constexpr std::uint64_t kBytes = 8192 * kMiB;
  testing::OwnSpace own(2 * kBytes);
  const auto records = [&] {
    return testing::resident_bytes(own.records(),
                                   round_down(Space::record_bytes(2 * kBytes), os::page_size()));
  };
  REQUIRE(own.space.commit(kBytes));
  const Granules all = granules_in(kBytes);
  const Granules kept{4};
  REQUIRE(own.space.pages.claim(Granules{0}, kept).granted);
  REQUIRE(own.space.pages.claim(kept, all - kept).granted);
  CHECK(records() >= all.count());
  CHECK(own.space.pages.free(kept, PageMap::Left::kNone) == all - kept);
  CHECK(own.space.retreat() != 0);
  CHECK(records() < kMiB);
  CHECK(own.space.pages.length(Granules{0}) == kept);
  REQUIRE(own.space.commit(kBytes));
  CHECK(own.space.pages.valid(all));
  CHECK(own.space.pages.look(kept, all - kept).granted);
}

}  // namespace
}  // namespace memo
