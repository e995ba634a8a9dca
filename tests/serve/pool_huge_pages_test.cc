// Where an arena has memory, and how much of what it gave out is written: huge pages and their
// cost.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/os.h"
#include "tests/support/arenas.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::ArenaFixture;

struct HugeArena : ArenaFixture {
  HugeArena() : ArenaFixture(true) {}
};

// Ranges of addresses that the kernel keeps apart.
std::size_t mappings() {
  const std::string all = testing::read_file("/proc/self/maps");
  return static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
}

TEST_CASE_METHOD(HugeArena, "arena: blocks never used before come in huge pages", "[serve]") {
  take(16 * kMiB);
  const Arena::Block early = arena.allocate(4 * kMiB, 16);
  *static_cast<char*>(early.start) = 1;
  CHECK(resident() == 16 * kMiB + os::page_size());  // hardly anything is alive
  CHECK(arena.free(early.start, true));
  const Arena::Block most = arena.allocate(24 * kMiB, 16);  // may be a buffer for the worst case
  *static_cast<char*>(most.start) = 1;
  CHECK(resident() == 16 * kMiB + os::page_size());
  CHECK(arena.huge_pages.end() == Granules{0});
  std::memset(most.start, 1, 24 * kMiB);
  const std::uint64_t before = resident();
  CHECK(before == 40 * kMiB);
  const Arena::Block block = arena.allocate(4 * kMiB, 16);
  *static_cast<char*>(block.start) = 1;
  CHECK(resident() - before == (testing::huge_pages_to_be_had() ? os::kHugePage : os::page_size()));
  const Granules end = space.granule_of(block.start) + granules_of(4 * kMiB);
  CHECK(arena.huge_pages.end() == round_up(end, granules_in(os::kHugePage)));
}

// A short block takes the last huge page that it begins, and the next one lies elsewhere.
TEST_CASE_METHOD(HugeArena, "arena: what nobody writes behind short blocks is little", "[serve]") {
  constexpr std::uint64_t kShort = 70000;
  take(40 * kMiB);
  const std::uint64_t before = resident();
  std::uint64_t written = 0;
  const bool grows = GENERATE(false, true);
  for (int i = 0; i < 80; ++i) {
    char* const block =
        static_cast<char*>(arena.allocate(kShort, grows ? 16 : os::kHugePage).start);
    std::memset(block, 1, kShort);
    written += bytes_of(granules_of(kShort));
    if (grows) {
      REQUIRE(arena.resize(block, os::kHugePage));
    }
  }
  CHECK(resident() - before <= written + tuning::kMaxUnwritten + os::kHugePage);
}

TEST_CASE_METHOD(HugeArena, "arena: a block that covers no huge page holds what it writes",
                 "[serve]") {
  take(40 * kMiB);
  const bool at_once = GENERATE(false, true);
  CHECK(arena.free(take(8 * kMiB), at_once));
  arena.trim();
  CHECK(resident() == 40 * kMiB);
  *static_cast<char*>(arena.allocate(kMiB, 16).start) = 1;
  CHECK(resident() == 40 * kMiB + os::page_size());
}

TEST_CASE_METHOD(HugeArena, "arena: a block is in huge pages again where memory was given back",
                 "[serve]") {
  take(40 * kMiB);
  const bool at_once = GENERATE(false, true);
  CHECK(arena.free(take(12 * kMiB), at_once));
  arena.trim();
  const std::uint64_t before = resident();
  CHECK(before == 40 * kMiB);
  char* const block = static_cast<char*>(arena.allocate(9 * kMiB, 16).start);
  *block = 1;
  const std::uint64_t page = testing::huge_pages_to_be_had() ? os::kHugePage : os::page_size();
  CHECK(resident() == before + page);
  block[9 * kMiB - 1] = 1;  // in a huge page that is not all the block's
  CHECK(resident() == before + page + os::page_size());
  CHECK(arena.free(block, true));
  CHECK(resident() == before);
}

TEST_CASE_METHOD(HugeArena, "arena: memory given back in many pieces splits few mappings",
                 "[serve]") {
  take(40 * kMiB);
  const std::size_t before = mappings();
  std::vector<char*> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(take(2 * kMiB));
  }
  for (int round = 0; round < 40; ++round) {
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      CHECK(arena.free(blocks[i], true));
      blocks[i] = take(2 * kMiB);
    }
  }
  CHECK(mappings() <= before + 8);  // and not one for each of the 20 pieces
}

// Whether huge pages are asked for where `at` lies, as the kernel tells.
bool asks_for_huge_pages(const char* at) {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  std::istringstream lines(testing::read_file("/proc/self/smaps"));
  bool here = false;
  for (std::string line; std::getline(lines, line);) {
    std::uint64_t first = 0;
    std::uint64_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &first, &end) == 2) {
      here = first <= address && address < end;
    } else if (here && line.starts_with("VmFlags:")) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

TEST_CASE_METHOD(HugeArena, "arena: a piece that goes hundreds of times costs huge pages elsewhere",
                 "[serve]") {
  take(41 * kMiB);
  char* piece = take(4 * kMiB);  // covers one huge page, and two in part
  const char* const other = take(20 * kMiB) + 2 * kMiB;
  if (!asks_for_huge_pages(other)) {
    testing::skip("huge pages, or a kernel that tells of them");
    return;
  }
  const auto exchange = [&](int times) {
    for (int i = 0; i < times; ++i) {
      REQUIRE(arena.free(piece, true));
      piece = take(4 * kMiB);
    }
  };
  exchange(150);
  CHECK(asks_for_huge_pages(piece + 2 * kMiB));
  CHECK_FALSE(asks_for_huge_pages(piece));
  CHECK(asks_for_huge_pages(other));
  exchange(150);
  CHECK_FALSE(asks_for_huge_pages(other));
}

}  // namespace
}  // namespace memo
