// Which blocks of the pool last, and are offered to the kernel's merging.
#include "src/serve/lasting.h"

#include <catch2/catch.hpp>
#include <vector>

#include "src/base/os.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

constexpr std::uint64_t kBlock = 256 << 10;  // bytes

struct PoolFixture {
  testing::OwnSpace own{256 << 20};
  Pool pool;
  PoolFixture() { pool.open(&own.space, false); }

  void* take(std::uint16_t owner = 0) {
    void* start = pool.allocate(kBlock, 16, owner).start;
    REQUIRE(start != nullptr);
    return start;
  }
  void mark() {
    Granules at;
    while (LastingBlocks(pool).mark(at)) {
    }
  }
  // Bytes that were offered, in walks to the end.
  std::uint64_t offer() {
    Granules at;
    std::uint64_t offered = 0;
    bool known = true;
    while (LastingBlocks(pool).offer(at, offered, known)) {
    }
    return offered;
  }
};

TEST_CASE_METHOD(PoolFixture,
                 "pool: memory shows what is written, but of blocks that are to be zeros",
                 "[serve]") {
  const void* const plain = pool.allocate(kBlock, 16, 5).start;
  const void* const zero = pool.allocate(kBlock, 16, 5, true).start;
  CHECK(pool.writing_shows(plain));
  CHECK_FALSE(pool.writing_shows(zero));
  CHECK(pool.note(plain).owner() == 5);
  CHECK(pool.note(zero).owner() == 5);
}

bool merges_here() {
  void* page = os::map(os::page_size());
  return page != nullptr && os::offer_for_merging(page, os::page_size());
}

TEST_CASE_METHOD(PoolFixture, "lasting: what lasts is offered, and nothing else", "[serve]") {
  if (!merges_here()) {
    WARN("not tested: this kernel merges no equal pages");
    return;
  }
  std::vector<void*> blocks;
  for (int i = 0; i < 3000; ++i) {  // more than one walk, and more ranges than one turn's
    blocks.push_back(take(static_cast<std::uint16_t>(i % 64)));
    if (i % 10 == 9 && i < 2900) {
      pool.free(blocks[blocks.size() - 5], false);
      blocks.erase(blocks.end() - 5);
    }
    if (blocks.size() * kBlock > (200U << 20)) {
      break;
    }
  }
  CHECK(offer() == 0);
  mark();
  CHECK(pool.note(blocks[13]).owner() == 14);
  const std::uint64_t all = blocks.size();
  CHECK(offer() == all * kBlock);
  take();  // came later
  CHECK(offer() == all * kBlock);
  pool.free(blocks.back(), false);
  CHECK(offer() == (all - 1) * kBlock);
  CHECK(take() == blocks.back());  // another block of the same place and size
  CHECK(offer() == (all - 1) * kBlock);
  CHECK(pool.valid());
}

}  // namespace
}  // namespace memo
