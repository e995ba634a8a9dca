#include "src/base/kept_blocks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "tests/support/process.h"

namespace memo {
namespace {

using testing::below;
using testing::Random;
using Answer = KeptBlocks::Answer;

// Memory that looks like the next allocator's blocks: aligned, each with room for the largest.
class Blocks {
 public:
  explicit Blocks(std::size_t count) : memory_((count + 1) * kStride) {}
  void* at(std::size_t number) {
    const auto start = reinterpret_cast<std::uint64_t>(memory_.data());
    const std::uint64_t first = (start + kStride - 1) / kStride * kStride;
    return reinterpret_cast<void*>(first + number * kStride);
  }

 private:
  static constexpr std::size_t kStride = 8192;
  std::vector<char> memory_;
};

// A usable size that glibc has: 16 bytes apart.
std::size_t usable_for(std::size_t bytes) {
  return bytes <= 24 ? 24 : (bytes - 8 + 15) / 16 * 16 + 8;
}

TEST_CASE("kept: a block comes back for a request that it is large enough for, and once",
          "[base]") {
  Blocks blocks(2);
  KeptBlocks kept(0);
  CHECK(kept.take(600) == nullptr);
  kept.want(usable_for(600));
  CHECK(kept.keep(blocks.at(0), usable_for(600)) == Answer::kKept);
  CHECK(kept.take(usable_for(600) + 1) == nullptr);
  CHECK(kept.take(500) == nullptr);
  CHECK(kept.take(600) == blocks.at(0));
  CHECK(kept.take(600) == nullptr);
  CHECK(kept.bytes() == 0);
}

TEST_CASE("kept: a block with what was too little for another serves all the same", "[base]") {
  Blocks blocks(1);
  KeptBlocks kept(0);
  kept.want(usable_for(600) + 16);
  REQUIRE(kept.keep(blocks.at(0), usable_for(600) + 16) == Answer::kKept);
  CHECK(kept.take(600) == blocks.at(0));
}

TEST_CASE("kept: no more than were asked for, and than the most", "[base]") {
  const std::size_t most = tuning::kMaxKeptBlocks;
  Blocks blocks(most + 2);
  KeptBlocks kept(0);
  CHECK(kept.keep(blocks.at(0), 72) == Answer::kNotWanted);
  kept.want(72);
  CHECK(kept.keep(blocks.at(0), 72) == Answer::kKept);
  CHECK(kept.keep(blocks.at(1), 72) == Answer::kNotWanted);
  for (std::size_t i = 0; i < 2 * most; ++i) {
    kept.want(72);
  }
  std::size_t count = 1;
  while (count <= most && kept.keep(blocks.at(count), 72) == Answer::kKept) {
    ++count;
  }
  CHECK(count == 32);
}

TEST_CASE("kept: no more bytes than the most, and sizes that nobody asks for make room", "[base]") {
  Blocks blocks(128);
  KeptBlocks kept(0);
  const auto keep_one = [&](std::size_t number, std::size_t usable) {
    kept.want(usable);
    std::size_t dropped = 0;
    while (kept.keep(blocks.at(number), usable) == Answer::kFull) {
      REQUIRE(kept.bytes() + usable > 128 << 10);
      REQUIRE(kept.drop() != nullptr);
      ++dropped;
    }
    REQUIRE(kept.bytes() <= 128 << 10);
    return dropped;
  };
  // Of many sizes, once each; then of two, again and again.
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < 96; ++i) {
    dropped += keep_one(i, 2056 + 16 * i);
  }
  CHECK(dropped > 10);
  CHECK(kept.bytes() > 120 << 10);
  int last = 0;
  for (int round = 0; round < 200; ++round) {
    for (std::size_t i = 96; i < 128; ++i) {
      if (kept.take(1000 + i % 2 * 1000) == nullptr) {
        last = round;
      }
    }
    for (std::size_t i = 96; i < 128; ++i) {
      keep_one(i, usable_for(1000 + i % 2 * 1000));
    }
  }
  CHECK(last < 100);  // from then on each was there
}

TEST_CASE("kept: what is larger stays the caller's", "[base]") {
  Blocks blocks(1);
  KeptBlocks kept(0);
  for (const std::size_t usable : {4120UL, 8000UL, 1UL << 20}) {
    kept.want(usable_for(usable));
    CHECK(kept.keep(blocks.at(0), usable_for(usable)) == Answer::kNotWanted);
  }
  kept.want(usable_for(4096));
  CHECK(kept.keep(blocks.at(0), usable_for(4096)) == Answer::kKept);
  CHECK(kept.take(4096) == blocks.at(0));
  CHECK(kept.take(4097) == nullptr);
  CHECK(kept.take(SIZE_MAX) == nullptr);
  kept.want(0);  // of no block
  CHECK(kept.keep(blocks.at(0), 8) == Answer::kNotWanted);
}

TEST_CASE("kept: a second free is noticed, also of a block that is not the latest", "[base]") {
  Blocks blocks(3);
  KeptBlocks kept(0);
  for (std::size_t i = 0; i < 3; ++i) {
    kept.want(200);
    REQUIRE(kept.keep(blocks.at(i), 200) == Answer::kKept);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(kept.keep(blocks.at(i), 200) == Answer::kTwice);
  }
  // What a program has written into a block of its own is no second free, whatever it is.
  void* mine = kept.take(200);
  const KeptBlocks* same = &kept;
  std::memcpy(static_cast<char*>(mine) + 8, &same, sizeof(same));
  CHECK(kept.keep(mine, 200) == Answer::kKept);
}

TEST_CASE("kept: what the next allocator has marked as free goes to it, which ends the program",
          "[base]") {
  Blocks blocks(1);
  constexpr std::uint64_t kMark = 0x1234567890;
  KeptBlocks kept(kMark);
  kept.want(200);
  std::memcpy(static_cast<char*>(blocks.at(0)) + 8, &kMark, sizeof(kMark));
  CHECK(kept.keep(blocks.at(0), 200) == Answer::kNotWanted);
  std::memset(blocks.at(0), 0, 200);
  CHECK(kept.keep(blocks.at(0), 200) == Answer::kKept);
}

// Beside a simple model: what is kept by size, and nothing is given out twice or lost.
TEST_CASE("kept: random requests get blocks that are large enough, each once", "[base]") {
  for (const std::uint64_t seed : testing::seeds(2)) {
    INFO("seed " << seed);
    Random random(seed);
    constexpr std::size_t kCount = 200;
    Blocks blocks(kCount);
    KeptBlocks kept(0);
    std::map<void*, std::size_t> usable;
    std::set<void*> inside;
    std::vector<void*> outside;
    for (std::size_t i = 0; i < kCount; ++i) {
      usable[blocks.at(i)] = usable_for(1 + below(random, 4096));
      outside.push_back(blocks.at(i));
    }
    std::size_t found = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (below(random, 2) == 0 && !outside.empty()) {
        std::swap(outside[below(random, outside.size())], outside.back());
        void* block = outside.back();
        outside.pop_back();
        std::memset(block, static_cast<int>(below(random, 256)), usable[block]);
        Answer answer = kept.keep(block, usable[block]);
        while (answer == Answer::kFull) {
          void* dropped = kept.drop();
          REQUIRE(inside.erase(dropped) == 1);
          outside.push_back(dropped);
          answer = kept.keep(block, usable[block]);
        }
        REQUIRE(answer != Answer::kTwice);
        if (answer == Answer::kKept) {
          REQUIRE(inside.insert(block).second);
        } else {
          outside.push_back(block);
        }
      } else {
        const std::size_t bytes = 1 + below(random, 4096);
        void* block = kept.take(bytes);
        if (block == nullptr) {
          kept.want(usable_for(bytes));
          continue;
        }
        ++found;
        REQUIRE(inside.erase(block) == 1);
        REQUIRE(usable[block] >= bytes);
        outside.push_back(block);
      }
      std::size_t sum = 0;
      for (void* block : inside) {
        sum += usable[block];
      }
      REQUIRE(sum == kept.bytes());
    }
    CHECK(found > 100);
    kept.give_back([&](void* block) { REQUIRE(inside.erase(block) == 1); });
    CHECK(inside.empty());
    CHECK(kept.bytes() == 0);
  }
}

}  // namespace
}  // namespace memo
