// What is brought into huge pages, and how much at a time. The system is pretended.
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "src/serve/gathering.h"

namespace memo {
namespace {

struct System {
  Nanos now;
  Nanos work{120'000};  // that a huge page takes
  bool rests = true;
  std::vector<std::uint64_t> made;
  std::vector<Nanos> rested;
};
System* system_of_this_test = nullptr;

const GatherCalls kPretended{
    .collapse =
        [](void* start) {
          system_of_this_test->now = system_of_this_test->now + system_of_this_test->work;
          system_of_this_test->made.push_back(reinterpret_cast<std::uint64_t>(start));
          return true;
        },
    .now = [] { return system_of_this_test->now; },
    .rest =
        [](Nanos time) {
          system_of_this_test->rested.push_back(time);
          return system_of_this_test->rests;
        },
};

const auto kEach = [](const void*) { return true; };
const auto kAlways = [] { return true; };
constexpr std::uint64_t kHuge = os::kHugePage;

TEST_CASE("gathering: whole huge pages that lie inside, and have all their memory") {
  System system;
  system_of_this_test = &system;
  const Gathering gathering(kPretended);
  CHECK(gathering.gather(5 * kHuge - 4096, 8 * kHuge + 4096, kEach, kAlways));
  CHECK(system.made == std::vector<std::uint64_t>{5 * kHuge, 6 * kHuge, 7 * kHuge});
  system.made.clear();
  const auto but_six = [](const void* start) {
    return reinterpret_cast<std::uint64_t>(start) != 6 * kHuge;
  };
  CHECK(gathering.gather(5 * kHuge, 8 * kHuge, but_six, kAlways));
  CHECK(system.made == std::vector<std::uint64_t>{5 * kHuge, 7 * kHuge});
  system.made.clear();
  CHECK(gathering.gather(5 * kHuge + 1, 7 * kHuge - 1, kEach, kAlways));
  CHECK(gathering.gather(5 * kHuge + 1, 6 * kHuge - 1, kEach, kAlways));
  CHECK(gathering.gather(5 * kHuge, 5 * kHuge, kEach, kAlways));
  CHECK(system.made.empty());
}

TEST_CASE("gathering: rests after each huge page that was made") {
  System system;
  system_of_this_test = &system;
  const Gathering gathering(kPretended);
  CHECK(gathering.gather(0, 4 * kHuge, kEach, kAlways));
  CHECK(system.rested == std::vector<Nanos>(4, Nanos{10'000'000}));
  system.rested.clear();
  system.work = Nanos{80'000};  // they are there already
  CHECK(gathering.gather(0, 4 * kHuge, kEach, kAlways));
  CHECK(system.rested.empty());
}

TEST_CASE("gathering: ends where it may not rest, and where it is told to") {
  System system;
  system_of_this_test = &system;
  const Gathering gathering(kPretended);
  system.rests = false;
  CHECK_FALSE(gathering.gather(0, 4 * kHuge, kEach, kAlways));
  CHECK(system.made.size() == 1);
  system.rests = true;
  system.made.clear();
  CHECK_FALSE(gathering.gather(0, 4 * kHuge, kEach, [&] { return system.made.size() < 2; }));
  CHECK(system.made.size() == 2);
}

}  // namespace
}  // namespace memo
