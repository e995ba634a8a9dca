// What is made of a plan that is left, and what the next one must show.
#include "src/engine/confidence.h"

#include <catch2/catch.hpp>

namespace memo {
namespace {

constexpr std::uint32_t kIteration = 40;

Confidence after(std::uint64_t placed, bool own = true, bool strange = false,
                 std::uint32_t trial = 0) {
  Confidence confidence;
  confidence.adopt(own, strange, trial);
  confidence.begin(kIteration);
  for (std::uint64_t i = 0; i < placed; ++i) {
    confidence.note_placed();
  }
  return confidence;
}

Judgement judge(Confidence confidence, Evidence evidence, std::uint32_t required = 0) {
  return confidence.judge(evidence, kIteration, 1 << 20, required, false);
}

TEST_CASE(
    "confidence: a plan that hardly served is withdrawn, one that served for long has not failed",
    "[engine]") {
  const Judgement hardly = judge(after(60), Evidence::kMissed);
  CHECK(hardly.verdict == (kWithdrawn | kFailed));
  CHECK(hardly.run == 60);
  CHECK_FALSE(hardly.gives_back);
  const Judgement some = judge(after(200), Evidence::kMissed);
  CHECK(some.verdict == kFailed);
  CHECK_FALSE(some.gives_back);
  const Judgement longer = judge(after(tuning::kConvincingRun), Evidence::kMissed);
  CHECK(longer.verdict == 0);
  CHECK(longer.gives_back);
}

TEST_CASE("confidence: a plan whose blocks live for another time is right where it was made",
          "[engine]") {
  const Judgement few = judge(after(10), Evidence::kLivesOtherwise);
  CHECK(few.verdict == kUnfit);
  CHECK(few.run == kIteration);
  CHECK(judge(after(10), Evidence::kInTheWay, 100).run == 100);
  CHECK(judge(after(10), Evidence::kInTheWay, 10'000).run == tuning::kConvincingRun / 2);
}

TEST_CASE("confidence: another program's plan is unfit, however long it served", "[engine]") {
  const Judgement judgement = judge(after(2 * tuning::kConvincingRun), Evidence::kUneven);
  CHECK(judgement.verdict == kUnfit);
  CHECK(judgement.run == tuning::kConvincingRun / 2);
}

TEST_CASE("confidence: what others have made is no evidence against this stream's loop",
          "[engine]") {
  const Judgement found = judge(after(200, false), Evidence::kMissed);
  CHECK_FALSE(found.run);
  const Judgement strange = judge(after(25, false, true), Evidence::kNeverCame);
  CHECK(strange.verdict == kFailed);  // most of an iteration has come
  CHECK(strange.gives_back);
}

TEST_CASE("confidence: a trial of this stream's loop is over at its loss, and the next shows more",
          "[engine]") {
  Confidence confidence = after(5, true, false, 100);
  CHECK(confidence.tries_own());
  CHECK_FALSE(confidence.ends_trial());
  const Judgement judgement =
      confidence.judge(Evidence::kTrialMissed, kIteration, 1 << 20, 0, false);
  CHECK(judgement.tried);
  CHECK((judgement.verdict & kWithdrawn) != 0);
  CHECK_FALSE(judgement.run);
  CHECK_FALSE(confidence.on_trial());
  CHECK(confidence.trials_lost() == 1);
  confidence.adopt(true, false, 3);
  confidence.begin(kIteration);
  CHECK(
      confidence.lose_trial(kIteration, 1 << 20, true));  // of blocks that move none is made again
  CHECK(confidence.trials_lost() == tuning::kNoMoreTrials);
}

TEST_CASE("confidence: a trial that keeps its promise is believed, and forgives those lost",
          "[engine]") {
  Confidence confidence = after(0, true, false, 3);
  CHECK(confidence.lose_trial(kIteration, 1 << 20, false));
  confidence.adopt(true, false, 3);
  confidence.begin(kIteration);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(confidence.ends_trial());
    confidence.note_placed();
  }
  CHECK(confidence.ends_trial());
  CHECK_FALSE(confidence.ends_trial());
  CHECK(confidence.trials_lost() == 0);
}

TEST_CASE("confidence: a plan that served for long forgives the trials lost before it",
          "[engine]") {
  Confidence confidence = after(3, true, false, 10);
  confidence.judge(Evidence::kTrialMissed, kIteration, 64 << 20, 0, true);
  CHECK(confidence.trials_lost() == tuning::kNoMoreTrials);
  CHECK(confidence.bytes_to_try(0) == 0);
  const bool long_run = GENERATE(true, false);
  confidence.adopt(false, false, 0);
  confidence.begin(kIteration);
  for (std::uint32_t i = 0; i < (long_run ? tuning::kConvincingRun : 100); ++i) {
    confidence.note_placed();
  }
  confidence.judge(Evidence::kMissed, kIteration, 1 << 20, 0, false);
  CHECK(confidence.trials_lost() == (long_run ? 0 : tuning::kNoMoreTrials));
  CHECK((confidence.bytes_to_try(0) != 0) == long_run);
}

TEST_CASE("confidence: misses alone end a stored plan of which nothing has come", "[engine]") {
  Health health;
  for (std::uint32_t i = 0; i < tuning::kMaxStrangeMisses; ++i) {
    health.note(i % 2 == 0 && i < 20, 100, 1000);
  }
  CHECK_FALSE(after(0, false, false).after_miss(health));
  for (std::uint32_t i = 0; i < 20; ++i) {
    health.note(false, 100, 1000);
  }
  CHECK(after(0, false, true).after_miss(health) == Evidence::kNeverCame);
  Confidence walked = after(0, false, true);
  walked.note_walked();
  CHECK_FALSE(walked.after_miss(health));
}

}  // namespace
}  // namespace memo
