#include "src/serve/recent_peak.h"

#include <catch2/catch.hpp>

#include "src/base/tuning.h"

namespace memo {
namespace {

Nanos after(std::uint64_t milliseconds) {
  return Nanos{1'000'000'000'000 + milliseconds * 1'000'000};
}

TEST_CASE("recent peak: holds for one window, and not for more than two", "[serve]") {
  RecentPeak peak;
  CHECK(peak.note(5, after(0)) == 5);
  CHECK(peak.note(3, after(100)) == 5);
  CHECK(peak.note(7, after(1500)) == 7);
  CHECK(peak.note(1, after(2500)) == 7);  // of the last window
  CHECK(peak.note(1, after(3500)) == 7);
  CHECK(peak.note(2, after(5000)) == 2);
}

TEST_CASE("recent peak: a window in which nobody came holds nothing", "[serve]") {
  RecentPeak peak;
  CHECK(peak.note(5, after(0)) == 5);
  CHECK(peak.note(1, after(4500)) == 1);
}

}  // namespace
}  // namespace memo
