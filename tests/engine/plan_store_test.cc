#include "src/engine/plan_store.h"
#include "src/base/tuning.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "src/base/bits.h"
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
    return store.add(guard, schedule, schedule->count, true);
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
  for (std::uint64_t i = 0; i < tuning::kMaxPlans; ++i) {
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

// Withdraws `old` and puts a plan of `sizes` into its slot.
Plan* put_in_place_of(PlanStore& store, Plan* old, const Schedule* schedule) {
  const RecursionGuard guard;
  store.withdraw(old);
  store.release(old);
  Plan* plan = store.add(guard, schedule, schedule->count, true);
  REQUIRE(plan == old);
  return plan;
}

TEST_CASE_METHOD(Fixture, "follower: what has fitted a plan does not count for its successor",
                 "[engine]") {
  const std::vector<std::uint64_t> before = count_up(100, 30);
  Plan* plan = add(before);
  Follower follower;
  for (std::uint64_t i = 0; i < 7; ++i) {
    REQUIRE(follower.next(store, before[i]).plan == nullptr);
  }
  const std::vector<std::uint64_t> after = count_up(500, 30);
  put_in_place_of(store, plan, testing::hostile(random, after, 1 << 20));
  for (std::uint64_t i = 7; i < 14; ++i) {
    CAPTURE(i);
    CHECK(follower.next(store, after[i]).plan == nullptr);
  }
  follower.next(store, after[14]);  // the place is known from three sizes on
  CHECK(follower.next(store, after[15]).plan == plan);
}

TEST_CASE_METHOD(Fixture, "follower: what has failed is distrusted, not what has its memory next",
                 "[engine]") {
  const std::vector<std::uint64_t> sizes = count_up(100, 30);
  Plan* plan = add(sizes);
  Follower follower;
  follower.distrust(store.slot_of(plan), *plan, true);
  // Of the schedules that come after it, one has its address, since malloc gives that again.
  for (int i = 0; i < 4; ++i) {
    put_in_place_of(store, plan, testing::hostile(random, sizes, 1 << 20));
    follower.restart();
    Follower::Found found;
    for (std::uint64_t call = 0; call < 8; ++call) {
      found = follower.next(store, sizes[call]);
    }
    CAPTURE(i);
    CHECK(found.plan == plan);
    store.release(plan);
  }
}

// Steps that end where no memory may be read: each is 4096 bytes larger than the one before.
class SymbolicAtTheEdge {
 public:
  explicit SymbolicAtTheEdge(std::uint32_t count) : count_(count) {
    const std::uint64_t bytes = round_up(count * sizeof(SymbolicStep), 4096);
    auto* memory = static_cast<char*>(
        mmap(nullptr, bytes + kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory + bytes, kGuard, PROT_NONE);
    auto* steps = reinterpret_cast<SymbolicStep*>(memory + bytes) - count;
    for (std::uint32_t i = 0; i < count; ++i) {
      new (steps + i) SymbolicStep{.rule = {.constant = 4096.0 * i, .slope = 1}, .lifetime = 1};
    }
    plan_ = {.steps = steps, .count = count, .least = 4096};
  }
  // Lives as long as the process, as the store's last plans do.
  const Schedule* schedule(Random& random, std::uint64_t first) const {
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t i = 0; i < count_; ++i) {
      sizes.push_back(first + std::uint64_t{4096} * i);
    }
    const Schedule* result = testing::hostile(random, sizes, 1ULL << 30);
    const_cast<Schedule*>(result)->symbolic = new (std::malloc(sizeof plan_)) SymbolicPlan(plan_);
    return result;
  }

 private:
  static constexpr std::uint64_t kGuard = 1ULL << 20;
  std::uint32_t count_ = 0;
  SymbolicPlan plan_;
};

// In a child, which may be ended by the read.
TEST_CASE_METHOD(Fixture, "follower: a place in a long plan is none in the short one after it",
                 "[engine]") {
  const int status = testing::status_of_child([&] {
    constexpr std::uint64_t kFirst = 70'000;
    const Schedule* first = SymbolicAtTheEdge(400).schedule(random, kFirst);
    Plan* plan = store.add(guard, first, first->count, true);
    Follower follower;
    const auto follow = [&](std::uint64_t size) {
      const Follower::Found found = follower.next(store, size);
      if (found.plan != nullptr) {
        store.release(found.plan);
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
    put_in_place_of(store, plan, SymbolicAtTheEdge(20).schedule(random, kFirst));
    int early = 0;
    for (std::uint64_t i = 0; i < 20; ++i) {
      early += follow(kFirst + 4096 * i) && i < 19 ? 1 : 0;
    }
    return early;
  });
  CHECK(status == 0);
}

}  // namespace
}  // namespace memo
