// What lasts in the pool, is written, and is nobody else's comes in huge pages.
#include "src/serve/long_lived_huge_pages.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstring>

#include "src/base/os.h"
#include "src/base/tuning.h"
#include "tests/support/arenas.h"
#include "tests/support/process.h"
#include "tests/support/units.h"

namespace memo {
namespace {

using testing::ArenaFixture;
using testing::in_huge_pages;

struct LongLivedFixture : ArenaFixture {
  void look(int times) {
    for (int i = 0; i < times; ++i) {
      arena.long_lived.look(space);
    }
  }
  // Huge pages that are made of what `times` looks find.
  std::uint64_t made(int times) {
    const std::uint64_t before = in_huge_pages();
    look(times);
    return (in_huge_pages() - before) / os::kHugePage;
  }
};

TEST_CASE_METHOD(LongLivedFixture, "long lived: what is written and stays comes in huge pages",
                 "[serve]") {
  if (!testing::collapses()) {
    return;
  }
  char* const weights = take(9 * kMiB);
  weights[5 * kMiB] = 7;
  const std::uint64_t held = resident();
  CHECK(made(tuning::kLongLivedLooks - 1) == 0);
  CHECK(made(1) == 4);
  CHECK(made(5) == 0);
  CHECK(resident() == held);
  CHECK(weights[5 * kMiB] == 7);
  CHECK(weights[5 * kMiB - 1] == 1);
}

TEST_CASE_METHOD(LongLivedFixture, "long lived: a few huge pages are made in a look", "[serve]") {
  if (!testing::collapses()) {
    return;
  }
  take(2 * (tuning::kCollapsedAtOnce + 4) * kMiB);
  look(tuning::kLongLivedLooks - 1);
  CHECK(made(1) == tuning::kCollapsedAtOnce);
  CHECK(made(1) == 4);
}

TEST_CASE_METHOD(LongLivedFixture, "long lived: what has a page that nobody wrote stays as it is",
                 "[serve]") {
  if (!testing::collapses()) {
    return;
  }
  char* const block = static_cast<char*>(arena.allocate(6 * kMiB, 16).start);
  std::memset(block, 1, 3 * kMiB);
  std::memset(block + 3 * kMiB + kGranule, 1, 3 * kMiB - kGranule);
  const volatile char read = block[3 * kMiB];  // the kernel lends its page of zeros
  CHECK(read == 0);
  const std::uint64_t held = resident();
  CHECK(made(6) == 2);
  CHECK(resident() == held);
}

TEST_CASE_METHOD(LongLivedFixture, "long lived: blocks that come and go stay as they are",
                 "[serve]") {
  if (!testing::collapses()) {
    return;
  }
  for (int i = 0; i < 6; ++i) {
    char* const block = take(8 * kMiB);
    CHECK(made(1) == 0);
    CHECK(arena.free(block));
  }
  // And what is free.
  CHECK(made(6) == 0);
}

TEST_CASE_METHOD(LongLivedFixture, "long lived: pages that a child shares stay shared", "[serve]") {
  if (!testing::collapses()) {
    return;
  }
  take(8 * kMiB);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(ends[1]);
    static_cast<void>(read(ends[0], &byte, 1));
    _exit(0);
  }
  CHECK(made(300) == 0);
  close(ends[1]);
  close(ends[0]);
  CHECK(waitpid(child, nullptr, 0) == child);
  CHECK(made(150) == 4);
}

TEST_CASE_METHOD(LongLivedFixture,
                 "long lived: a block whose pages the program changes stays as it is", "[serve]") {
  if (!testing::collapses()) {
    return;
  }
  take(4 * kMiB);
  char* const block = take(8 * kMiB);
  const Granules first = space.granule_of(block);
  space.pages.mark_altered(first, first + granules_of(8 * kMiB));
  CHECK(made(6) == 2);
}

}  // namespace
}  // namespace memo
