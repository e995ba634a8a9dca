#include "src/base/tuning.h"
#include "src/engine/follower.h"

#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::Random;

struct Fixture {
  PlanStore store;
  Random random{1};
  RecursionGuard guard;
  StoredPlan served;  // by the lane, and not of the store

  StoredPlan* add(const std::vector<std::uint64_t>& sizes) {
    return store.add(guard, testing::hostile(random, sizes, 1 << 20),
                     static_cast<std::uint32_t>(sizes.size()), Maker::kProcess);
  }
  // The stream's next call: a plan that fits, for a lane that serves another one.
  Follower::Found next(Follower& follower, std::uint64_t size) {
    follower.hear(size, 0);
    return follower.find(store, &served);
  }
  // Calls of these sizes, in turns, before the one that takes a plan up; `most`, where none does.
  std::uint64_t calls_before_plan(Follower& follower, const std::vector<std::uint64_t>& sizes,
                                  std::uint64_t most) {
    std::uint64_t calls = 0;
    while (calls < most && next(follower, sizes[calls % sizes.size()]).plan == nullptr) {
      ++calls;
    }
    return calls;
  }
  // The first sizes of all visible plans.
  std::set<std::uint64_t> visible() {
    std::set<std::uint64_t> result;
    store.for_each(
        [&](const StoredPlan& plan, std::uint32_t) { result.insert(plan.made->steps[0].size); });
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
  std::vector<StoredPlan*> plans;
  std::set<std::uint64_t> all;
  for (std::uint64_t i = 0; i < tuning::kMaxPlans; ++i) {
    plans.push_back(add(count_up(1000 * i, 20)));
    REQUIRE(plans.back() != nullptr);
    all.insert(1000 * i);
  }
  CHECK(visible() == all);
  CHECK(add({7}) == nullptr);  // every plan is in use
  CHECK(visible() == all);
  for (StoredPlan* plan : plans) {
    PlanStore::release(*plan);
  }
  // The oldest is taken up by a follower, so the second oldest goes.
  Follower follower;
  StoredPlan* found = nullptr;
  for (std::uint64_t size = 0; size < 20 && found == nullptr; ++size) {
    found = next(follower, size).plan;
  }
  REQUIRE(found == plans[0]);
  PlanStore::release(*found);
  CHECK(add({77'777}) == plans[1]);
  all.erase(1000);
  all.insert(77'777);
  CHECK(visible() == all);
}

TEST_CASE_METHOD(Fixture,
                 "follower: a plan that comes late fits at once if the last calls are its own",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  add(count_up(5000, 30));
  const std::uint64_t heard = GENERATE(7ULL, 8ULL, 20ULL);
  Follower follower;
  for (std::uint64_t i = 0; i + 1 < heard; ++i) {
    CHECK(next(follower, sizes[(25 + i) % 30]).plan == nullptr);
  }
  follower.hear(sizes[(25 + heard - 1) % 30], 0);
  StoredPlan* late = add(sizes);
  const Follower::Found found = follower.find(store, &served);
  CHECK(found.plan == (heard < 8 ? nullptr : late));
  CHECK((found.plan == nullptr || found.position.count() == (25 + heard) % 30));
}

TEST_CASE_METHOD(Fixture, "plan store: a withdrawn plan is unseen, and stays while it is used",
                 "[engine]") {
  StoredPlan* plan = add({1, 2, 3});
  store.withdraw(plan);
  CHECK(visible().empty());
  CHECK(plan->made->steps[0].size == 1);
  StoredPlan* other = add({4, 5, 6});
  CHECK(other != plan);
  PlanStore::release(*plan);
  StoredPlan* third = add({7, 8, 9});
  CHECK(third == plan);
  CHECK(visible() == std::set<std::uint64_t>{4, 7});
}

TEST_CASE_METHOD(Fixture, "plan store: a plan is searched for that is used and has no lower one",
                 "[engine]") {
  StoredPlan* plan =
      store.add(guard, testing::hostile(random, {1, 2, 3}, 1 << 20), 3, Maker::kCommand);
  CHECK(store.take_unsearched() == nullptr);
  plan->walked = true;
  const bool better = GENERATE(false, true);
  if (better) {
    plan->improve(testing::hostile(random, {1, 2, 3}, 1 << 19));
  }
  CHECK(store.has_unsearched() == !better);
}

TEST_CASE_METHOD(Fixture, "plan store: a search that a fork has cut off begins again in the child",
                 "[engine]") {
  StoredPlan* plan = add({1, 2, 3});
  const bool ended = GENERATE(false, true);
  const bool in_a_call = GENERATE(false, true);
  REQUIRE(store.take_unsearched() == plan);
  CHECK_FALSE(store.has_unsearched());
  plan->lowest = ended;
  store.after_fork(in_a_call);
  CHECK(store.has_unsearched() == !ended);
}

TEST_CASE_METHOD(Fixture, "follower: takes a plan up after eight calls that fit, anywhere in it",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  StoredPlan* plan = add(sizes);
  const std::uint64_t start = GENERATE(0ULL, 1ULL, 17ULL, 25ULL, 29ULL);
  Follower follower;
  for (std::uint64_t i = 0; i < 5; ++i) {
    CHECK(next(follower, 9000 + i).plan == nullptr);
  }
  std::uint64_t calls = 0;
  Follower::Found found;
  while (found.plan == nullptr && calls < 30) {
    found = next(follower, sizes[(start + calls++) % 30]);
  }
  CHECK(calls == 8);
  CHECK(found.plan == plan);
  CHECK(found.position.count() == (start + calls) % 30);
  CHECK(plan->users == 2);
}

TEST_CASE_METHOD(Fixture,
                 "follower: of plans that fit alike the command's own is taken, else the lower",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  const auto add_from = [&](std::uint64_t height, Maker maker) {
    return store.add(guard, testing::hostile(random, sizes, height), 30, maker);
  };
  const bool has_own = GENERATE(false, true);
  const bool higher_first = GENERATE(false, true);
  const Maker best = has_own ? Maker::kCommand : Maker::kVersion;
  if (higher_first) {
    add_from(4 << 20, best);
  }
  StoredPlan* taken = add_from(2 << 20, best);
  if (!higher_first) {
    add_from(4 << 20, best);
  }
  add_from(has_own ? 1 << 20 : 3 << 20, Maker::kOther);
  Follower follower;
  Follower::Found found;
  for (std::uint64_t call = 0; call < 8; ++call) {
    found = next(follower, sizes[call]);
  }
  CHECK(found.plan == taken);
  CHECK(taken->users == 2);
}

TEST_CASE_METHOD(Fixture, "follower: streams that only resemble a plan do not fit", "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  add(sizes);
  Follower follower;
  for (std::uint64_t i = 0; i < 300; ++i) {
    CHECK(next(follower, i % 6 == 5 ? 99 : sizes[i % 30]).plan == nullptr);
  }
}

// Withdraws `old` and puts a plan of `sizes` into its slot.
StoredPlan* put_in_place_of(PlanStore& store, StoredPlan* old, Plan next) {
  const RecursionGuard guard;
  store.withdraw(old);
  PlanStore::release(*old);
  const std::uint32_t count = next->count;
  StoredPlan* plan = store.add(guard, std::move(next), count, Maker::kProcess);
  REQUIRE(plan == old);
  return plan;
}

TEST_CASE_METHOD(Fixture, "follower: what has fitted a plan does not count for its successor",
                 "[engine]") {
  const std::vector<std::uint64_t> before = count_up(100, 30);
  StoredPlan* plan = add(before);
  Follower follower;
  for (std::uint64_t i = 0; i < 7; ++i) {
    REQUIRE(next(follower, before[i]).plan == nullptr);
  }
  const std::vector<std::uint64_t> after = count_up(500, 30);
  put_in_place_of(store, plan, testing::hostile(random, after, 1 << 20));
  for (std::uint64_t i = 7; i < 14; ++i) {
    CAPTURE(i);
    CHECK(next(follower, after[i]).plan == nullptr);
  }
  next(follower, after[14]);  // the place is known from three sizes on
  CHECK(next(follower, after[15]).plan == plan);
}

TEST_CASE_METHOD(Fixture, "follower: what has failed is distrusted, not what has its memory next",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  StoredPlan* plan = add(sizes);
  Follower follower;
  follower.distrust(store.slot_of(plan), *plan, true);
  // Of the schedules that come after it, one has its address, since malloc gives that again.
  for (int i = 0; i < 4; ++i) {
    put_in_place_of(store, plan, testing::hostile(random, sizes, 1 << 20));
    follower.restart();
    Follower::Found found;
    for (std::uint64_t call = 0; call < 8; ++call) {
      found = next(follower, sizes[call]);
    }
    CAPTURE(i);
    CHECK(found.plan == plan);
    PlanStore::release(*plan);
  }
}

// A parametric plan, each of whose steps is 4096 bytes larger than the one before. Behind a plan's
// memory lies a page that nobody can read.
Plan parametric(std::uint32_t count, std::uint64_t first) {
  std::vector<SymbolicStep> rules;
  std::vector<Step> steps;
  for (std::uint32_t i = 0; i < count; ++i) {
    rules.push_back({.rule = {.constant = 4096.0 * i, .slope = 1}, .lifetime = 1});
    steps.push_back({.size = first + std::uint64_t{4096} * i, .offset = 0, .lifetime = 1});
  }
  const SymbolicPlan symbolic{.steps = rules.data(), .count = count, .least = 4096};
  return testing::plan_of(steps, 1ULL << 30, &symbolic);
}

// In a child, which may be ended by the read.
TEST_CASE_METHOD(Fixture, "follower: a place in a long plan is none in the short one after it",
                 "[engine]") {
  const int status = testing::status_of_child([&] {
    constexpr std::uint64_t kFirst = 70'000;
    StoredPlan* plan = store.add(guard, parametric(400, kFirst), 400, Maker::kProcess);
    Follower follower;
    const auto follow = [&](std::uint64_t size) {
      const Follower::Found found = next(follower, size);
      if (found.plan != nullptr) {
        PlanStore::release(*found.plan);
      }
      return found.plan != nullptr;
    };
    bool found = false;
    for (std::uint64_t i = 0; i < 300; ++i) {
      found = follow(kFirst + 4096 * i);
    }
    if (!found) {
      return 2;
    }
    put_in_place_of(store, plan, parametric(20, kFirst));
    int early = 0;
    for (std::uint64_t i = 0; i < 20; ++i) {
      early += follow(kFirst + 4096 * i) && i < 19 ? 1 : 0;
    }
    return early;
  });
  CHECK(status == 0);
}

TEST_CASE("plan: moves, and is what it was copied from", "[follow]") {
  Random random(3);
  const std::vector<std::uint64_t> sizes = count_up(70'000, 3000);
  Plan plan = testing::hostile(random, sizes, 1 << 20);
  const Schedule* there = plan.get();
  REQUIRE(plan);
  Plan moved = std::move(plan);
  CHECK_FALSE(plan);  // NOLINT(bugprone-use-after-move)
  CHECK(plan.get() == nullptr);
  CHECK(moved.get() == there);
  REQUIRE(moved->count == 3000);
  const Recent recent{{sizes[997], sizes[998], sizes[999]}};
  CHECK(moved.index().find(*moved, recent, 0_step) == 999_step);
  for (std::uint32_t i = 0; i < 3000; ++i) {
    REQUIRE(moved->steps[i].size == sizes[i]);
  }
  moved = parametric(40, 70'000);
  REQUIRE(moved->symbolic != nullptr);
  CHECK_FALSE(moved->symbolic->complete());
  CHECK(moved->symbolic->steps[39].rule.bytes(70'000) == moved->steps[39].size);
  moved = Plan::copy_of(*moved);
  CHECK(moved->symbolic->count == 40);
  CHECK(reinterpret_cast<const char*>(moved->symbolic->steps) >
        reinterpret_cast<const char*>(moved.get()));
}

TEST_CASE_METHOD(Fixture,
                 "follower: a plan that was left twice must fit for a quarter of its calls",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 100);
  StoredPlan* plan = add(sizes);
  Follower follower;
  for (const std::uint64_t needed : {8U, 33U, 33U}) {
    follower.distrust(store.slot_of(plan), *plan, false);
    follower.restart();
    REQUIRE(1 + calls_before_plan(follower, sizes, sizes.size() - 1) == needed);
    PlanStore::release(*plan);
  }
}

TEST_CASE_METHOD(Fixture,
                 "follower: a plan must fit 256 times through at most, however often it fails",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 4);
  StoredPlan* plan = add(sizes);
  Follower follower;
  for (int i = 0; i < 12; ++i) {
    follower.distrust(store.slot_of(plan), *plan, true);
  }
  const std::uint64_t calls = calls_before_plan(follower, sizes, 3000);
  CHECK(calls >= 700);
  CHECK(calls <= 1400);
}

}  // namespace
}  // namespace memo
