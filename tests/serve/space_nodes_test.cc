// On which memory nodes a space's memory lies: what the kernel says of it.
#include <sys/syscall.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include "tests/support/skip.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

constexpr int kRefused = -1;
constexpr int kDefault = 0, kInterleave = 3, kLocal = 4;  // MPOL_

int policy_at(void* address) {
  constexpr unsigned long kOfAddress = 1UL << 1U;  // MPOL_F_ADDR
  int mode = kRefused;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, address, kOfAddress) == 0 ? mode
                                                                                   : kRefused;
}

TEST_CASE("space: what is committed lies on the nodes that are asked for", "[serve]") {
  struct Row {
    Numa where;
    int policy;
  };
  for (const Row& row :
       {Row{Numa::kOff, kDefault}, {Numa::kInterleave, kInterleave}, {Numa::kLocal, kLocal}}) {
    testing::OwnSpace own(256 * kMiB);
    own.space.place_on(row.where);
    REQUIRE(own.space.commit(kMiB));
    if (policy_at(own.space.base()) == kRefused) {
      return testing::skip("a kernel that knows memory nodes");
    }
    CHECK(policy_at(own.space.base()) == row.policy);
    // The next part, and what was given up and is committed again.
    const std::uint64_t first = own.space.committed_bytes();
    REQUIRE(own.space.commit(first + kMiB));
    CHECK(policy_at(own.space.base() + first) == row.policy);
    REQUIRE(own.space.retreat(Granules{0}) != 0);
    REQUIRE(own.space.commit(kMiB));
    CHECK(policy_at(own.space.base()) == row.policy);
  }
}

}  // namespace
}  // namespace memo
