// The model of a cache beside one that keeps each byte in a list.
#include "src/cli/plan/cache_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <list>
#include <random>
#include <vector>

#include "dsa/planner.h"
#include "tests/support/problems.h"

namespace memo::cli {
namespace {

using dsa::Bytes;
using dsa::Plan;
using dsa::Problem;

// Bytes in a list, the latest in front.
class ByteList {
 public:
  explicit ByteList(Bytes capacity) : capacity_(static_cast<std::size_t>(capacity)) {}
  Bytes touch(Bytes from, Bytes to) {
    Bytes missed = 0;
    for (Bytes at = from; at < to; ++at) {
      const auto found = std::find(bytes_.begin(), bytes_.end(), at);
      missed += found == bytes_.end() ? 1 : 0;
      if (found != bytes_.end()) {
        bytes_.erase(found);
      }
      bytes_.push_front(at);
      if (bytes_.size() > capacity_) {
        bytes_.pop_back();
      }
    }
    return missed;
  }

 private:
  std::size_t capacity_;
  std::list<Bytes> bytes_;
};

TEST_CASE("cache model: what fits is fetched once, what is larger than the cache each time",
          "[cache]") {
  const Problem problem{
      {{.lower = 0, .upper = 2, .size = 100}, {.lower = 2, .upper = 4, .size = 100}}};
  const Plan shared{{0, 0}, 100};
  const Plan apart{{0, 100}, 200};
  CHECK(model_cache(problem, shared, 100).touched == 400);
  CHECK(model_cache(problem, shared, 100).missed == 0);
  CHECK(model_cache(problem, apart, 200).missed == 0);
  CHECK(model_cache(problem, apart, 100).missed == 200);  // each is read from the cache
  CHECK(model_cache(problem, shared, 1).missed == 400);
  CHECK(model_cache({}, {}, 64).touched == 0);
}

TEST_CASE("cache model: a gap's ends are touched as well", "[cache]") {
  const Problem problem{{{.lower = 0, .upper = 9, .size = 10, .gaps = {{2, 4}, {5, 8}}},
                         {.lower = 2, .upper = 4, .size = 10}}};
  const CacheUse use = model_cache(problem, {{0, 0}, 10}, 10);
  CHECK(use.touched == 80);
  CHECK(use.missed == 0);
}

TEST_CASE("cache model: as a list of single bytes, on random plans", "[cache]") {
  const auto seed = GENERATE(take(20, random(0U, UINT32_MAX)));
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](Bytes end) {
    return std::uniform_int_distribution<Bytes>(0, end - 1)(random);
  };
  Problem problem;
  for (int i = 0; i < 30; ++i) {
    const Bytes lower = below(40);
    problem.buffers.push_back({.lower = lower, .upper = lower + 1 + below(9), .size = below(7)});
  }
  const Plan plan = *dsa::find_planner("first-fit")->run(problem, {}).plan;
  // Pieces of a sixteenth are one byte each, so that both forget in the same order.
  const Bytes capacity = 1 + below(31);
  ByteList bytes(capacity);
  Bytes missed = 0;
  for (const bool counted : {false, true}) {
    for (dsa::Time now = 0; now < 60; ++now) {
      for (const bool birth : {false, true}) {
        for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
          const dsa::Buffer& buffer = problem.buffers[i];
          if (now == (birth ? buffer.lower : buffer.upper - 1)) {
            const Bytes fetched = bytes.touch(plan.offsets[i], plan.offsets[i] + buffer.size);
            missed += counted ? fetched : 0;
          }
        }
      }
    }
  }
  CHECK(model_cache(problem, plan, capacity).missed == missed);
}

}  // namespace
}  // namespace memo::cli
