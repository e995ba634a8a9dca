#include "src/engine/plan_store.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::Random;

struct Fixture {
  PlanStore store;
  Random random{1};
  RecursionGuard guard;

  Plan* add(const std::vector<std::uint64_t>& sizes) {
    const Schedule* schedule = testing::hostile(random, sizes, 1 << 20);
    return store.add(guard, schedule, schedule->count);
  }
  // The first sizes of all visible plans.
  std::set<std::uint64_t> visible() {
    std::set<std::uint64_t> result;
    store.for_each(
        [&](const Plan& plan, std::uint32_t) { result.insert(plan.schedule->steps[0].size); });
    return result;
  }
};

std::vector<std::uint64_t> count_up(std::uint64_t from, std::uint64_t count) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < count; ++i) {
    result.push_back(from + i);
  }
  return result;
}

TEST_CASE_METHOD(Fixture, "plan store: a full store parts with the plan used longest ago",
                 "[engine]") {
  std::vector<Plan*> plans;
  std::set<std::uint64_t> all;
  for (std::uint64_t i = 0; i < PlanStore::kMost; ++i) {
    plans.push_back(add(count_up(1000 * i, 20)));
    REQUIRE(plans.back() != nullptr);
    all.insert(1000 * i);
  }
  CHECK(visible() == all);
  CHECK(add({7}) == nullptr);  // every plan is in use
  CHECK(visible() == all);
  for (Plan* plan : plans) {
    store.release(plan);
  }
  // The oldest is taken up by a follower, so the second oldest goes.
  Follower follower;
  Plan* found = nullptr;
  for (std::uint64_t size = 0; size < 20 && found == nullptr; ++size) {
    found = follower.next(store, size).plan;
  }
  REQUIRE(found == plans[0]);
  store.release(found);
  CHECK(add({77'777}) == plans[1]);
  all.erase(1000);
  all.insert(77'777);
  CHECK(visible() == all);
}

TEST_CASE_METHOD(Fixture, "plan store: a withdrawn plan is unseen, and stays while it is used",
                 "[engine]") {
  Plan* plan = add({1, 2, 3});
  store.withdraw(plan);
  CHECK(visible().empty());
  CHECK(plan->schedule->steps[0].size == 1);
  Plan* other = add({4, 5, 6});
  CHECK(other != plan);
  store.release(plan);
  Plan* third = add({7, 8, 9});
  CHECK(third == plan);
  CHECK(visible() == std::set<std::uint64_t>{4, 7});
}

TEST_CASE_METHOD(Fixture, "follower: takes a plan up after eight calls that fit, anywhere in it",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  Plan* plan = add(sizes);
  const std::uint64_t start = GENERATE(0ULL, 1ULL, 17ULL, 25ULL, 29ULL);
  Follower follower;
  for (std::uint64_t i = 0; i < 5; ++i) {
    CHECK(follower.next(store, 9000 + i).plan == nullptr);
  }
  std::uint64_t calls = 0;
  Follower::Found found;
  while (found.plan == nullptr && calls < 30) {
    found = follower.next(store, sizes[(start + calls++) % 30]);
  }
  CHECK(calls == 8);
  CHECK(found.plan == plan);
  CHECK(found.position == (start + calls) % 30);
  CHECK(plan->users == 2);
}

TEST_CASE_METHOD(Fixture, "follower: streams that only resemble a plan do not fit", "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  add(sizes);
  Follower follower;
  for (std::uint64_t i = 0; i < 300; ++i) {
    CHECK(follower.next(store, i % 6 == 5 ? 99 : sizes[i % 30]).plan == nullptr);
  }
}

}  // namespace
}  // namespace memo
