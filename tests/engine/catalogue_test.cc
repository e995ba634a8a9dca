// Plans that lie outside the process: their keys, and who has taken them.
#include "src/engine/catalogue.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "src/engine/stream_knowledge.h"
#include "src/follow/plan_name.h"
#include "src/trace/signature.h"

namespace memo {
namespace {

std::vector<PlanName> take(Catalogue& catalogue, std::uint64_t key, std::uint32_t most = 8) {
  std::vector<PlanName> names;
  catalogue.take(key, most, [&](const PlanName& name) {
    names.push_back(name);
    return true;
  });
  return names;
}

TEST_CASE("call window: the key is of the last eight calls, sizes and alignments in order",
          "[follow]") {
  CallWindow early;
  CallWindow late;
  for (std::uint64_t i = 0; i < 20; ++i) {
    late.add(7'000'000 + i, 4);
  }
  for (std::uint64_t i = 0; i < kKeyCalls; ++i) {
    CHECK_FALSE(early.full());
    early.add(70'000 * (i % 3 + 1), 6);
    late.add(70'000 * (i % 3 + 1), 6);
  }
  CHECK(early.full());
  CHECK(early.key() == late.key());
  for (std::uint32_t i = 0; i < kKeyCalls; ++i) {
    CHECK(early.size(i) == 70'000 * (i % 3 + 1));
    CHECK(early.size(i) == late.size(i));
  }
  CallWindow swapped;
  CallWindow aligned;
  for (std::uint64_t i = 0; i < kKeyCalls; ++i) {
    swapped.add(70'000 * (i % 3 + 1), i == 4 ? 12 : 6);
    aligned.add(70'000 * ((i < 2 ? 1 - i : i) % 3 + 1), 6);
  }
  CHECK(swapped.key() != early.key());
  CHECK(aligned.key() != early.key());
  late.add(70'000, 6);
  CHECK(late.key() != early.key());
}

TEST_CASE("catalogue: a plan is found by each of its keys, and taken once", "[engine]") {
  const auto catalogue = std::make_unique<Catalogue>();
  const PlanName plan{.stream = 5, .keys = {10, 20, 30, 20}};
  CHECK_FALSE(catalogue->has(10));
  CHECK_FALSE(catalogue->add(plan));  // it is not open
  REQUIRE(catalogue->open());
  CHECK(catalogue->add(plan));
  CHECK_FALSE(catalogue->add(plan));
  for (const std::uint64_t key : {10U, 20U, 30U}) {
    CHECK(catalogue->has(key));
  }
  CHECK_FALSE(catalogue->has(40));
  CHECK_FALSE(catalogue->has(0));
  CHECK(take(*catalogue, 30) == std::vector<PlanName>{plan});
  for (const std::uint64_t key : {10U, 20U, 30U}) {
    CHECK_FALSE(catalogue->has(key));
    CHECK(take(*catalogue, key).empty());
  }
  CHECK_FALSE(catalogue->add(plan));  // it is still known
}

TEST_CASE("catalogue: plans that begin alike are taken a few at a time", "[engine]") {
  const auto catalogue = std::make_unique<Catalogue>();
  REQUIRE(catalogue->open());
  for (std::uint64_t stream = 1; stream <= 6; ++stream) {
    CHECK(catalogue->add({.stream = stream, .keys = {77, 100 + stream}}));
  }
  CHECK(take(*catalogue, 77, 4).size() == 4);
  CHECK(catalogue->has(77));
  CHECK(take(*catalogue, 77, 4).size() == 2);
  CHECK_FALSE(catalogue->has(77));
}

TEST_CASE("catalogue: what was put back is there again, once", "[engine]") {
  const auto catalogue = std::make_unique<Catalogue>();
  REQUIRE(catalogue->open());
  const PlanName plan{.stream = 5, .keys = {10, 20, 30, 20}};
  const PlanName alike{.stream = 6, .keys = {10, 20, 40, 50}};
  REQUIRE(catalogue->add(plan));
  REQUIRE(catalogue->add(alike));
  CHECK(take(*catalogue, 10).size() == 2);
  CHECK_FALSE(catalogue->has(20));
  catalogue->put_back(plan);
  catalogue->put_back({.stream = 7, .keys = {10, 20, 40, 50}});  // nobody knows it
  CHECK(catalogue->has(30));
  CHECK_FALSE(catalogue->has(40));
  CHECK(take(*catalogue, 20) == std::vector<PlanName>{plan});
  CHECK_FALSE(catalogue->has(10));
}

TEST_CASE("catalogue: a plan that cannot be had now is asked for once, and again later",
          "[engine]") {
  const auto catalogue = std::make_unique<Catalogue>();
  REQUIRE(catalogue->open());
  const PlanName plan{.stream = 5, .keys = {10, 20}};
  REQUIRE(catalogue->add(plan));
  int asked = 0;
  catalogue->take(10, 8, [&](const PlanName&) { return ++asked < 0; });
  CHECK(asked == 1);
  CHECK(take(*catalogue, 20) == std::vector<PlanName>{plan});
}

TEST_CASE("catalogue: a full one takes no more", "[engine]") {
  const auto catalogue = std::make_unique<Catalogue>();
  REQUIRE(catalogue->open());
  std::mt19937_64 random(3);
  std::vector<PlanName> names(kMaxCatalogue);
  for (PlanName& name : names) {
    name = {.stream = random() | 1U,
            .keys = {random() | 1U, random() | 1U, random() | 1U, random() | 1U}};
    REQUIRE(catalogue->add(name));
  }
  CHECK(catalogue->count() == kMaxCatalogue);
  CHECK_FALSE(catalogue->add({.stream = 1, .keys = {2, 3, 4, 5}}));
  CHECK_FALSE(catalogue->has(2));
  for (std::size_t i = 0; i < names.size(); i += 100) {
    CHECK(take(*catalogue, names[i].keys[i / 100 % 4]) == std::vector<PlanName>{names[i]});
  }
}

int looks = 0;  // at the cache, whatever the calls' key is

TEST_CASE("catalogue: the cache is looked at again each few dozen calls that no plan places",
          "[engine]") {
  const auto catalogue = std::make_unique<Catalogue>();
  REQUIRE(catalogue->open());
  const EngineHost host{
      .outside = catalogue.get(),
      .fetch = [](const RecursionGuard&, std::uint64_t, bool look) { looks += look ? 1 : 0; }};
  CallWindow window;
  looks = 0;
  for (std::uint64_t call = 0; call < 1000; ++call) {
    window.add(65'536 + 4096 * call, 6);
    fetch_plans(host, window);
  }
  CHECK(looks >= 12);
  CHECK(looks <= 20);
}

}  // namespace
}  // namespace memo
