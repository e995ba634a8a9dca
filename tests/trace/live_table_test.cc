#include "src/trace/live_table.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace memo {
namespace {

TEST_CASE("live table: a word holds 48 address bits and the id", "[trace]") {
  for (const std::uint64_t address : {0x7fff12345000ULL, 0x1000ULL, 0xfffff7c07000ULL}) {
    for (const std::uint16_t id : {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{65535}}) {
      const TaggedPointer pointer(address, id);
      CHECK(pointer.address() == address);
      CHECK(pointer.id() == id);
      CHECK(TaggedPointer(pointer.word()).address() == address);
    }
  }
}

TEST_CASE("live table: a block is claimed once, by its own address", "[trace]") {
  std::uint64_t words[4] = {};
  LiveTable table(words);
  TaggedPointer found;
  CHECK_FALSE(table.claim(Granules{2}, 0x5000, found));
  table.insert(Granules{2}, TaggedPointer(0x5000, 77));
  CHECK_FALSE(table.claim(Granules{2}, 0x6000, found));
  CHECK_FALSE(table.claim(Granules{1}, 0x5000, found));
  REQUIRE(table.claim(Granules{2}, 0x5000, found));
  CHECK(found.id() == 77);
  CHECK_FALSE(table.claim(Granules{2}, 0x5000, found));
  table.insert(Granules{2}, TaggedPointer(0x5000, 78));  // the next generation of the address
  REQUIRE(table.claim(Granules{2}, 0x5000, found));
  CHECK(found.id() == 78);
}

// As AArch64 gives them to a process; x86-64's end one bit below.
TEST_CASE("live table: a block is found at an address of all 48 bits", "[trace]") {
  std::uint64_t words[4] = {};
  LiveTable table(words);
  TaggedPointer found;
  for (const std::uint16_t id : {std::uint16_t{3}, std::uint16_t{65535}}) {
    table.insert(Granules{1}, TaggedPointer(0xfffff7c07000, id));
    CHECK_FALSE(table.claim(Granules{1}, 0x7ffff7c07000, found));
    REQUIRE(table.claim(Granules{1}, 0xfffff7c07000, found));
    CHECK(found.id() == id);
  }
}

TEST_CASE("live table: of several threads exactly one claims a block", "[trace]") {
  constexpr std::uint64_t kBlocks = 2000;
  constexpr int kThreads = 4;
  std::vector<std::uint64_t> words(kBlocks);
  LiveTable table(words.data());
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    table.insert(Granules{i}, TaggedPointer((i + 1) * 4096, static_cast<std::uint16_t>(i)));
  }
  std::atomic<std::uint64_t> claimed{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kBlocks; ++i) {
        TaggedPointer found;
        if (table.claim(Granules{i}, (i + 1) * 4096, found)) {
          ++claimed;
          wrong += found.id() == static_cast<std::uint16_t>(i) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(claimed == kBlocks);
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace memo
