// What is brought into huge pages, and how much at a time. The system is pretended.
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "src/serve/gathering.h"

namespace memo {
namespace {

constexpr std::uint64_t kHuge = os::kHugePage;

struct System {
  Nanos now;
  Nanos work{120'000};  // that a huge page takes
  os::Collapse answer = os::Collapse::kDone;
  std::vector<std::uint64_t> made;  // numbers of huge pages
  std::uint64_t rests = 0;
  Nanos rested{};  // at the last rest
};
System* pretended = nullptr;

class Gatherer {
 public:
  Gatherer() { pretended = &system; }

  template <typename Fits>
  bool gather(std::uint64_t start, std::uint64_t end, Fits&& fits) {
    system.made.clear();
    system.rests = 0;
    return gathering_.gather(start, end, fits, [&](Nanos time) {
      system.rested = time;
      return ++system.rests <= may_rest;
    });
  }
  bool gather(std::uint64_t start, std::uint64_t end) {
    return gather(start, end, [](const void*) { return true; });
  }

  System system;
  std::uint64_t may_rest = UINT64_MAX;  // times

 private:
  Gathering gathering_{{.collapse =
                            [](void* start) {
                              pretended->now = pretended->now + pretended->work;
                              pretended->made.push_back(reinterpret_cast<std::uint64_t>(start) /
                                                        kHuge);
                              return pretended->answer;
                            },
                        .now = [] { return pretended->now; }}};
};

using Numbers = std::vector<std::uint64_t>;

TEST_CASE("gathering: whole huge pages that lie inside, and have all their memory") {
  Gatherer gatherer;
  CHECK(gatherer.gather(5 * kHuge - 4096, 8 * kHuge + 4096));
  CHECK(gatherer.system.made == Numbers{5, 6, 7});
  CHECK(gatherer.gather(5 * kHuge, 8 * kHuge, [](const void* start) {
    return reinterpret_cast<std::uint64_t>(start) != 6 * kHuge;
  }));
  CHECK(gatherer.system.made == Numbers{5, 7});
  for (const std::uint64_t end : {7 * kHuge - 1, 6 * kHuge - 1, 5 * kHuge + 1}) {
    CHECK(gatherer.gather(5 * kHuge + 1, end));
    CHECK(gatherer.system.made.empty());
  }
}

TEST_CASE("gathering: rests after each huge page that was made, and after 32 looks") {
  Gatherer gatherer;
  CHECK(gatherer.gather(kHuge, 5 * kHuge));
  CHECK(gatherer.system.rests == 4);
  gatherer.system.work = Nanos{80'000};  // they are there already
  CHECK(gatherer.gather(kHuge, 5 * kHuge));
  CHECK(gatherer.system.rests == 0);
  CHECK(gatherer.gather(kHuge, 61 * kHuge));  // 64 looks with the four before
  CHECK(gatherer.system.rests == 2);
  CHECK(gatherer.gather(kHuge, 65 * kHuge, [](const void*) { return false; }));
  CHECK(gatherer.system.rests == 2);
}

TEST_CASE("gathering: tells how long a huge page took that it rests for") {
  Gatherer gatherer;
  gatherer.system.work = Nanos{2'000'000};
  CHECK(gatherer.gather(kHuge, 2 * kHuge));
  CHECK(gatherer.system.rested == gatherer.system.work);
  gatherer.system.work =
      Nanos{80'000};  // is there already; one that took long does not count for the next
  CHECK(gatherer.gather(kHuge, 33 * kHuge));
  CHECK(gatherer.system.rested == Nanos{0});
}

TEST_CASE("gathering: an iteration is lengthened by little, or one in a hundred") {
  constexpr Nanos kTook{1'000'000};
  const auto rested = [&](std::uint64_t milliseconds, std::uint64_t iterations) {
    return has_rested(kTook, Nanos{milliseconds * 1'000'000}, iterations);
  };
  CHECK_FALSE(rested(40, 0));
  CHECK(rested(80, 0));  // the first one is not over, and longer than that
  CHECK(rested(80, 1));
  CHECK_FALSE(rested(80, 2));  // of 40 ms, of which one is 2.5 %
  CHECK_FALSE(rested(4'000, 100));
  CHECK(rested(6'000, 150));
  CHECK(rested(8'000, 100));  // of 80 ms
  CHECK_FALSE(rested(40, 1'000));
  CHECK(has_rested(Nanos{0}, Nanos{0}, 0));
}

TEST_CASE("gathering: ends where it is not to go on, and where no huge page is to be had") {
  Gatherer gatherer;
  gatherer.may_rest = 1;
  CHECK_FALSE(gatherer.gather(kHuge, 5 * kHuge));
  CHECK(gatherer.system.made == Numbers{1, 2});
  gatherer.may_rest = UINT64_MAX;
  gatherer.system.answer = os::Collapse::kNoMemory;
  CHECK_FALSE(gatherer.gather(kHuge, 5 * kHuge));
  CHECK(gatherer.system.made == Numbers{1});
  gatherer.system.answer = os::Collapse::kRefused;
  CHECK(gatherer.gather(kHuge, 5 * kHuge));
  CHECK(gatherer.system.made == Numbers{1, 2, 3, 4});
}

}  // namespace
}  // namespace memo
