// Which slab a lane gets.
#include "src/serve/slabs.h"

#include <catch2/catch.hpp>
#include <memory>

#include "src/base/os.h"
#include "tests/support/arenas.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

constexpr Nanos kNow = 1000 * os::kSecond;

struct ThreeSlabs {
  ThreeSlabs() {
    books.limit = UINT64_MAX;
    books.huge_pages = Choice::kNever;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      spaces[i] = std::make_unique<testing::OwnSpace>(64 * kMiB);
      slabs[i].open(&spaces[i]->space, &books, &pool);
    }
    books.open(slabs, kCount);
  }
  // Slab `number` is the lane's, and has memory.
  void hold(std::uint32_t number, std::uint32_t lane, std::uint64_t plan, std::uint64_t height,
            Nanos used = kNow) {
    REQUIRE(slabs[number].change(slabs[number].word(), SlabWord::held(lane, plan)));
    REQUIRE(slabs[number].raise(height) != Slab::Raised::kRefused);
    slabs[number].use(used);
  }
  void let_all_go() {
    for (Slab& slab : slabs) {
      slab.let_go(kNow);
    }
  }
  void put_block(std::uint32_t number) {
    REQUIRE(slabs[number].claim(0, kMiB, 64).answer == SlabPlace::Answer::kGranted);
  }
  // The number of the slab that lane 9 gets for plan 5; kCount: none.
  std::uint32_t take(std::uint64_t height = 2 * kMiB, std::uint64_t plan = 5) {
    const SlabWish wish{.lane = 9, .plan = plan, .height = height};
    const Slab* slab = books.take(wish, kNow, [&](Slab& its, std::uint64_t word) {
      ++steals;
      return may_steal && is_empty(its.space()) && its.change(word, wish.word());
    });
    if (slab == nullptr) {
      return kCount;
    }
    CHECK(slab->word() == wish.word());
    CHECK(books.valid());
    return static_cast<std::uint32_t>(slab - slabs);
  }

  static constexpr std::uint32_t kCount = 3;
  testing::OwnSpace pool_space{64 * kMiB};
  testing::OwnPool pool{&pool_space.space};
  Slabs books;
  std::unique_ptr<testing::OwnSpace> spaces[kCount];
  Slab slabs[kCount];
  bool may_steal = true;
  int steals = 0;
};

TEST_CASE_METHOD(ThreeSlabs, "slabs: a lane keeps its own, also with blocks in it", "[serve]") {
  hold(1, 9, 4, kMiB);
  put_block(1);
  CHECK(take() == 1);
  slabs[1].let_go(kNow);
  CHECK(take() == 1);  // the plan's blocks are where the plan has them
  slabs[1].let_go(kNow);
  CHECK(take(kMiB, 6) == 0);  // another plan's
}

TEST_CASE_METHOD(ThreeSlabs, "slabs: of the free and empty ones the best is taken", "[serve]") {
  hold(0, 1, 4, 8 * kMiB);
  hold(1, 2, 4, 4 * kMiB);
  hold(2, 3, 4, 1 * kMiB);
  let_all_go();
  SECTION("with the plan") {
    CHECK(take(2 * kMiB, 4) == 1);
  }
  SECTION("the least that is high enough") {
    CHECK(take(2 * kMiB) == 1);
  }
  SECTION("or else the highest") {
    CHECK(take(16 * kMiB) == 0);
  }
  SECTION("and not one with a block in it") {
    put_block(1);
    CHECK(take(2 * kMiB) == 0);
  }
}

TEST_CASE_METHOD(ThreeSlabs, "slabs: one that has the plan already is preferred", "[serve]") {
  hold(0, 1, 4, 2 * kMiB);
  hold(1, 2, 5, 8 * kMiB);
  hold(2, 3, 6, 2 * kMiB);
  let_all_go();
  CHECK(take() == 1);
}

TEST_CASE_METHOD(ThreeSlabs, "slabs: an idle slab is another's after some turns of the scheduler",
                 "[serve]") {
  for (std::uint32_t i = 0; i < kCount; ++i) {
    hold(i, i, 4, 4 * kMiB, kNow - 15 * os::kMillisecond);
  }
  CHECK(take() == kCount);
  CHECK(steals == 0);
  slabs[2].use(kNow - 30 * os::kMillisecond);
  SECTION("if no block is in it") {
    put_block(2);
    CHECK(take() == kCount);
    CHECK(steals == 0);
  }
  SECTION("if its holder is not at work") {
    may_steal = false;
    CHECK(take() == kCount);
    CHECK(steals == 1);
  }
  SECTION("with its memory") {
    CHECK(take() == 2);
    CHECK(slabs[2].height() == 4 * kMiB);
  }
}

TEST_CASE_METHOD(ThreeSlabs, "slabs: a free one with blocks in it is taken last, above them",
                 "[serve]") {
  for (std::uint32_t i = 0; i < kCount; ++i) {
    hold(i, i, 4, 4 * kMiB);
    put_block(i);
  }
  slabs[1].let_go(kNow);
  CHECK(take() == 1);
  CHECK(slabs[1].at(0) == slabs[1].space().base() + 2 * kMiB);
}

TEST_CASE_METHOD(ThreeSlabs,
                 "slabs: one without memory begins above its blocks, but for the plan they are of",
                 "[serve]") {
  hold(1, 9, 4, 4 * kMiB);
  put_block(1);
  const std::uint64_t plan = GENERATE(4U, 5U);
  if (GENERATE(true, false)) {
    CHECK(slabs[1].give_back());
    CHECK(take(kMiB, plan) == 1);
    CHECK(slabs[1].at(0) == slabs[1].space().base() + (plan == 4 ? 0 : 2 * kMiB));
  } else {
    CHECK(take(kMiB, plan) == 1);
    CHECK(slabs[1].at(0) == slabs[1].space().base());
  }
}

TEST_CASE_METHOD(ThreeSlabs, "slabs: what nobody holds keeps its memory for some seconds",
                 "[serve]") {
  hold(0, 0, 4, 4 * kMiB);
  hold(1, 1, 4, 4 * kMiB);
  slabs[0].let_go(kNow);
  books.give_back_free(tuning::kAtRest, kNow + os::kSecond);
  CHECK(books.bytes == 8 * kMiB);
  books.give_back_free(tuning::kAtRest, kNow + 3 * os::kSecond);
  CHECK(books.bytes == 4 * kMiB);
  CHECK(slabs[0].is_free());
  CHECK_FALSE(slabs[1].is_free());
}

TEST_CASE_METHOD(ThreeSlabs, "slabs: in a child what other lanes held is free", "[serve]") {
  hold(0, 7, 4, 4 * kMiB);
  hold(1, 9, 4, 2 * kMiB);
  books.orphan(9);
  CHECK(slabs[0].is_free());
  CHECK(slabs[1].word() == SlabWord::held(9, 4));
  books.bytes = 1;
  books.count_bytes();
  CHECK(books.bytes == 6 * kMiB);
}

}  // namespace
}  // namespace memo
