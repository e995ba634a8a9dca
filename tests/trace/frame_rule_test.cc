// Unwind tables, written by hand: what they say is understood, and what is broken is not followed
// out of them.
#include "src/trace/frame_rule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "src/trace/unwind_program.h"
#include "tests/support/guarded.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using Bytes = std::vector<unsigned char>;
using Cfa = FrameRule::Cfa;
using Saved = FrameRule::Saved;

constexpr std::uint64_t kStart = 0x10000;  // of the function, from the index' start on
constexpr std::uint64_t kLength = 0x100;

void append(Bytes& bytes, std::uint32_t word) {
  for (int i = 0; i < 4; ++i) {
    bytes.push_back(static_cast<unsigned char>(word >> (8 * i)));
  }
}
void append(Bytes& bytes, std::initializer_list<std::uint64_t> more) {
  for (const std::uint64_t byte : more) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
}
// Writes the length of the entry that began at `start` before it.
void close_entry(Bytes& bytes, std::size_t start) {
  while (bytes.size() % 4 != 0) {
    bytes.push_back(0);
  }
  const auto length = static_cast<std::uint32_t>(bytes.size() - start - 4);
  std::memcpy(&bytes[start], &length, sizeof length);
}

// An index of one function, the common part, and its description with the given program.
Bytes tables(std::initializer_list<std::uint64_t> program) {
  Bytes bytes = {1, 0xFF, 0x03, 0x3B};
  append(bytes, 1);
  append(bytes, kStart);
  append(bytes, 0);  // where the description is, see below
  const std::size_t common = bytes.size();
  append(bytes, 0);
  append(bytes, 0);
  append(bytes, {1, 'z', 'R', 0, 1, 0x78, kReturn, 1, 0x1B});
  append(bytes, {0x0C, kSp, 8, 0x80 + kReturn, 1});  // CFA: sp + 8, return address at CFA - 8
  close_entry(bytes, common);
  const std::size_t description = bytes.size();
  bytes[12] = static_cast<unsigned char>(description);
  append(bytes, 0);
  append(bytes, static_cast<std::uint32_t>(description + 4 - common));
  append(bytes, static_cast<std::uint32_t>(kStart - bytes.size()));
  append(bytes, kLength);
  append(bytes, {0});
  append(bytes, program);
  close_entry(bytes, description);
  return bytes;
}

// The tables that lie right before memory which nobody may read.
struct Placed {
  explicit Placed(const Bytes& bytes) : at(pages.end() - bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), at);
  }
  [[nodiscard]] UnwindTables where() const {
    const auto low = reinterpret_cast<std::uint64_t>(at);
    return {low, reinterpret_cast<std::uint64_t>(pages.end()), low};
  }
  // The rule where a call that ends `offset` bytes into the function comes back.
  [[nodiscard]] FrameRule rule(std::uint64_t offset) const {
    return find_frame_rule(where(), where().index + kStart + offset);
  }

  testing::GuardedPages pages{1};
  unsigned char* at;
};

// Everything that compilers write, with a row at each of the offsets that the test looks at.
const Bytes& usual() {
  static const Bytes bytes = tables(
      {0x41,   0x0E, 16,   0x80 + kFp, 2,                               // 1: push the frame pointer
       0x43,   0x0D, kFp,                                               // 4: it is the frame's now
       0x0A,   0x02, 0x20, 0x0C,       kSp, 8,          0xC0 + kFp,     // 0x24: an early return
       0x41,   0x0B,                                                    // 0x25: as before it
       0x03,   0x1B, 0,    0x0F,       3,   0x70 + kFp, 0x78,       6,  // 0x40: an aligned stack
       0x10,   kFp,  2,    0x70 + kFp, 0,                               //
       0x04,   0x10, 0,    0,          0,   0x0C,       kFp + 4,    8,  // 0x50: a strange register
       0x50,   0x0C, kSp,  0xA0,       6,   0x2E,       16,         0x07,
       kReturn});  // 0x60: the outermost frame
  return bytes;
}

bool same(const FrameRule& a, const FrameRule& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST_CASE("frame rule: the row of the call that has not come back", "[trace]") {
  const Placed placed(usual());
  CHECK(same(placed.rule(1), {Cfa::kFromSp, Saved::kNo, 1, 0, -1}));
  CHECK(same(placed.rule(2), {Cfa::kFromSp, Saved::kAtCfa, 2, -2, -1}));
  CHECK(same(placed.rule(4), {Cfa::kFromSp, Saved::kAtCfa, 2, -2, -1}));
  CHECK(same(placed.rule(5), {Cfa::kFromFp, Saved::kAtCfa, 2, -2, -1}));
  CHECK(same(placed.rule(0x25), {Cfa::kFromSp, Saved::kNo, 1, 0, -1}));
  CHECK(same(placed.rule(0x26), {Cfa::kFromFp, Saved::kAtCfa, 2, -2, -1}));
  CHECK(same(placed.rule(0x41), {Cfa::kAtFp, Saved::kAtFp, -1, 0, -1}));
  CHECK(placed.rule(0x51).cfa == Cfa::kNone);
  CHECK(placed.rule(0x61).cfa == Cfa::kNone);
}

TEST_CASE("frame rule: none outside the functions that are described", "[trace]") {
  const Placed placed(usual());
  CHECK(placed.rule(0).cfa == Cfa::kNone);
  CHECK(placed.rule(kLength + 1).cfa == Cfa::kNone);
  CHECK(placed.rule(0 - kStart).cfa == Cfa::kNone);
  CHECK(find_frame_rule({}, placed.where().index + kStart + 1).cfa == Cfa::kNone);
  CHECK(find_frame_rule({0, ~0ULL, 0}, 1).cfa == Cfa::kNone);
}

TEST_CASE("frame rule: broken programs give none", "[trace]") {
  CHECK(Placed(tables({0x0B})).rule(1).cfa == Cfa::kNone);  // nothing was remembered
  CHECK(Placed(tables({0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A, 0x0A})).rule(1).cfa ==
        Cfa::kNone);                                            // too much is
  CHECK(Placed(tables({0x3F})).rule(1).cfa == Cfa::kNone);      // nobody's instruction
  CHECK(Placed(tables({0x0E, 12})).rule(1).cfa == Cfa::kNone);  // no multiple of a word
  CHECK(Placed(tables({0x0E, 0x80, 0x80, 0x80, 0x80, 1})).rule(1).cfa == Cfa::kNone);  // too large
  CHECK(Placed(tables({0x16, kFp, 0x7F})).rule(1).cfa == Cfa::kNone);   // ends beyond its end
  CHECK(Placed(tables({0x09, kReturn, 3})).rule(1).cfa == Cfa::kNone);  // in a register
}

TEST_CASE("frame rule: tables cut anywhere, with bytes changed, are not left", "[trace]") {
  const Bytes whole = usual();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Placed placed(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    CHECK(placed.rule(0x41).cfa == Cfa::kNone);
  }
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  testing::Random random(seed);
  const Placed placed(whole);
  std::uint64_t found = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::memcpy(placed.at, whole.data(), whole.size());
    for (int change = 0; change < 1 + i % 4; ++change) {
      placed.at[testing::below(random, whole.size())] =
          static_cast<unsigned char>(i % 2 == 0 ? random() : random() % 2 * 0xFF);
    }
    found += placed.rule(1 + testing::below(random, kLength)).cfa != Cfa::kNone ? 1U : 0U;
  }
  CHECK(found > 0);
}

}  // namespace
}  // namespace memo
