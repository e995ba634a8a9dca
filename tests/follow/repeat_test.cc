#include "src/follow/repeat.h"

#include <catch2/catch.hpp>
#include <random>

#include "src/base/tuning.h"
#include "tests/support/histories.h"

namespace memo {
namespace {

constexpr std::uint32_t kHistory = 4096;

struct Fixture {
  testing::History history{kHistory};
  Repeat repeat;
  std::mt19937_64 random{17};
  Fixture() { repeat.start(&history, kHistory); }

  // Adds [from, to) of the sequence `seed`, of which each token is different; how many looks were
  // asked.
  int add(std::uint64_t seed, std::uint32_t to, std::uint32_t from = 0) {
    int looks = 0;
    for (std::uint32_t i = from; i < to; ++i) {
      looks += repeat.add(seed * 1000000 + i * 64, 6) ? 1 : 0;
    }
    return looks;
  }
};

TEST_CASE_METHOD(Fixture, "repeat: asks for a look after two shifts", "[follow]") {
  constexpr std::uint32_t kCalls = 31;
  CHECK(add(1, kCalls) == 0);
  CHECK(add(1, kCalls) == 0);
  CHECK(repeat.shift() == kCalls);
  CHECK(add(1, kCalls - 1) == 0);
  CHECK(add(1, kCalls, kCalls - 1) == 1);
}

TEST_CASE_METHOD(Fixture, "repeat: asks for a look at a long loop after one shift, and after two",
                 "[follow]") {
  const std::uint32_t kCalls = GENERATE(32U, 100U);
  CHECK(add(1, kCalls) == 0);
  CHECK(add(1, kCalls - 1) == 0);
  CHECK(add(1, kCalls, kCalls - 1) == 1);
  CHECK(repeat.matched() == kCalls);
  CHECK(add(1, kCalls - 1) == 1);  // half a shift later
  CHECK(add(1, kCalls, kCalls - 1) == 1);
}

TEST_CASE_METHOD(Fixture, "repeat: says nothing of streams that do not repeat", "[follow]") {
  int looks = 0;
  for (int i = 0; i < 100000; ++i) {
    looks += repeat.add(random() % 40, 6) ? 1 : 0;
  }
  CHECK(looks == 0);
}

TEST_CASE_METHOD(Fixture, "repeat: an equal size of another alignment is another token",
                 "[follow]") {
  for (int i = 0; i < 300; ++i) {
    CHECK_FALSE(repeat.add(65536, static_cast<std::uint8_t>(random() % 61)));
  }
}

TEST_CASE_METHOD(Fixture, "repeat: follows an outer loop back over the inner one", "[follow]") {
  // Inner loops of 10 x 20 calls; the outer candidate is noticed late, but counts from where it
  // began.
  bool looked = false;
  for (std::uint32_t outer = 0; outer < 3 && !looked; ++outer) {
    add(1, 30);
    for (int inner = 0; inner < 20; ++inner) {
      add(2, 10);
    }
    looked = outer == 2 && repeat.shift() == 230 && repeat.matched() == 460;
  }
  CHECK(looked);
}

TEST_CASE_METHOD(Fixture, "repeat: a candidate is followed back by some calls at each call",
                 "[follow]") {
  const auto inner = [&](int times) {
    for (int i = 0; i < times; ++i) {
      add(2, 10);
    }
  };
  for (int outer = 0; outer < 2; ++outer) {
    inner(100);
    add(1, 30);
  }
  inner(7);  // the outer loop, behind an inner one, was seen 100 calls ago
  CHECK(repeat.shift() == 1030);
  CHECK(repeat.matched() > 400);
  CHECK(repeat.matched() < 700);
}

TEST_CASE_METHOD(Fixture, "repeat: a short loop is sure after some dozens of calls", "[follow]") {
  for (int i = 0; i < 6; ++i) {
    add(1, 10);
  }
  REQUIRE(repeat.shift() == 10);
  CHECK_FALSE(repeat.sure());  // 50 have matched
  for (int i = 0; i < 5; ++i) {
    add(1, 10);
  }
  CHECK(repeat.sure());
}

TEST_CASE_METHOD(Fixture, "repeat: looks become rarer while the answer is no", "[follow]") {
  int looks = 0;
  for (int i = 0; i < 1000; ++i) {
    looks += add(1, 100);
  }
  CHECK(looks >= 20);
  CHECK(looks <= 40);
}

TEST_CASE_METHOD(Fixture, "repeat: looks at a loop that breaks again and again are bounded",
                 "[follow]") {
  int looks = 0;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    looks += add(1, 1) + (i % 10 == 9 ? add(2 + i, 1) : 0);
  }
  // Those of a history of kHistory tokens, which each call earns a part of.
  const int earned = 11'000 * 4 * static_cast<int>(tuning::kCallWork) / static_cast<int>(kHistory);
  CHECK(looks >= earned);
  CHECK(looks <= 2 * earned);
}

TEST_CASE_METHOD(Fixture, "repeat: a broken lock asks for twice its run", "[follow]") {
  repeat.lock_broke(200);
  CHECK(repeat.required() == 400);
  repeat.lock_broke(100);
  CHECK(repeat.required() == 400);
  add(1, 100);
  CHECK(add(1, 100) + add(1, 100) + add(1, 100) + add(1, 99) == 0);
  CHECK(add(1, 100, 99) == 1);
  repeat.lock_broke(900);
  CHECK(repeat.required() == tuning::kConvincingRun);
  repeat.lock_broke(tuning::kConvincingRun);
  CHECK(repeat.required() == 0);
}

TEST_CASE_METHOD(Fixture, "repeat: periods beyond the history are not seen", "[follow]") {
  CHECK(add(1, 5000) + add(1, 5000) + add(1, 5000) == 0);
  CHECK(repeat.shift() == 0);
}

TEST_CASE("repeat: where memory is refused it begins anew in what it has", "[follow]") {
  constexpr std::uint32_t kGranted = 1024;
  testing::History granted{kGranted};
  Repeat repeat;
  repeat.start(&granted, kHistory);
  const auto looks = [&](std::uint32_t period, std::uint32_t times) {
    int sum = 0;
    for (std::uint32_t i = 0; i < times * period; ++i) {
      sum += repeat.add(1'000'000 + i % period * 64, 6) ? 1 : 0;
    }
    return sum;
  };
  CHECK(looks(2 * kGranted, 3) == 0);
  CHECK(looks(100, 20) > 0);
}

TEST_CASE_METHOD(Fixture, "repeat: still notices a loop after days of calls", "[follow]") {
  repeat.lock_broke(300);
  for (std::uint32_t i = 0; i + 4 < Repeat::kMaxTokens; ++i) {
    repeat.add(i, 6);
  }
  CHECK(repeat.required() == 600);
  int looks = 0;
  for (int i = 0; i < 10; ++i) {
    looks += add(1, 100);
  }
  CHECK(repeat.required() == 600);
  CHECK(repeat.shift() == 100);
  CHECK(looks > 0);
}

}  // namespace
}  // namespace memo
