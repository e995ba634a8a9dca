// Which loops are tried before they are believed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "src/base/tuning.h"
#include "src/learn/find_period.h"
#include "tests/learn/stream_builder.h"

namespace memo {
namespace {

using test::StreamBuilder;

TEST_CASE("period: a loop is tried from its third copy on", "[learn]") {
  StreamBuilder builder;
  const std::uint32_t length = GENERATE(3U, 10U, 50U);
  std::optional<StreamBuilder::Block> result;
  const auto call = [&](std::size_t i) {
    const auto next = builder.allocate(65'536 + 4096 * (i % length));
    if (i % length != 0) {
      builder.free(next);
      return;
    }
    if (result) {  // kept until the next one
      builder.free(*result);
    }
    result = next;
  };
  const std::size_t enough = length + std::max<std::size_t>(2 * length, 8);
  for (std::size_t i = 0; i + 1 < enough; ++i) {
    call(i);
    CHECK_FALSE(find_period_to_try(builder.stream, length, 2));
  }
  call(enough - 1);
  CHECK_FALSE(find_period(builder.stream));
  const auto found = find_period_to_try(builder.stream, length, 2);
  REQUIRE(found);
  CHECK(found->length == length);
  CHECK(found->trial >= 2 * length);
  CHECK_FALSE(find_period_to_try(builder.stream, length, 4));
  builder.allocate(1 << 20);
  CHECK_FALSE(find_period_to_try(builder.stream, length, 2));
}

TEST_CASE("period: a long loop is tried from its second copy on", "[learn]") {
  const std::uint32_t kCalls = GENERATE(32U, 64U);
  StreamBuilder builder;
  const auto iterate = [&](std::uint32_t calls) {
    for (std::uint32_t i = 0; i < calls; ++i) {
      builder.pass(65'536 + 4096 * i);
    }
  };
  iterate(kCalls);
  iterate(kCalls - 1);
  CHECK_FALSE(find_period_to_try(builder.stream, kCalls, 1));
  builder.pass(65'536 + 4096 * (kCalls - 1));
  const auto found = find_period_to_try(builder.stream, kCalls, 1);
  REQUIRE(found);
  CHECK(found->length == kCalls);
  CHECK(found->trial == 2 * kCalls);
  CHECK_FALSE(find_period_to_try(builder.stream, kCalls, 2));
}

TEST_CASE("period: a loop that has broken is tried after twice its run", "[learn]") {
  constexpr std::uint32_t kCalls = 10;
  StreamBuilder builder;
  const auto iterate = [&](int times) {
    for (int copy = 0; copy < times; ++copy) {
      for (std::uint32_t i = 0; i < kCalls; ++i) {
        builder.pass(65'536 + 4096 * i);
      }
    }
  };
  iterate(5);  // four shifts
  builder.pass(1 << 20);
  iterate(8);
  CHECK_FALSE(find_period_to_try(builder.stream, kCalls, 2));
  iterate(1);
  CHECK(find_period_to_try(builder.stream, kCalls, 2));
}

}  // namespace
}  // namespace memo
