// The thresholds of debug builds, which the environment may set. Elsewhere they are constants.
#include "src/base/tuning.h"

#include <catch2/catch.hpp>
#include <string>

namespace memo {
namespace {

#ifdef MEMO_DEBUG
TEST_CASE("tuning: what is named is set, and a fault is told with its place", "[base]") {
  const auto fit = tuning::kFit;
  const auto symbolic = tuning::kMaxAttempts;
  const char* wrong = nullptr;
  CHECK(tuning::set("kFit=16,kMaxAttempts=4", &wrong));
  CHECK(tuning::kFit == 16);
  CHECK(tuning::kMaxAttempts == 4);
  for (const char* bad : {"kFit", "kFit=", "kFit=0", "kFit=x", "kFit=1x", "kFit=-1", "kFitt=1",
                          "kMaxAttempts=4294967296", "kMaxPlans=16", "kFit=8,,"}) {
    INFO(bad);
    wrong = nullptr;
    CHECK_FALSE(tuning::set(bad, &wrong));
    CHECK(wrong != nullptr);
  }
  CHECK_FALSE(tuning::set("kFit=9,bad=1", &wrong));
  CHECK(std::string(wrong) == "bad=1");
  const auto piece = tuning::kPiece;  // of a unit
  CHECK(tuning::set("kPiece=16", &wrong));
  CHECK_FALSE(tuning::set("kPiece=0", &wrong));
  CHECK(tuning::kPiece == Granules{16});
  tuning::kPiece = piece;
  tuning::kFit = fit;
  tuning::kMaxAttempts = symbolic;
}
#else
static_assert(tuning::kFit != 0);  // a constant, or this would not compile
#endif

}  // namespace
}  // namespace memo
