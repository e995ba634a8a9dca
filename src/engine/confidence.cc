// See confidence.h. Hot.
#include "src/engine/confidence.h"

#include "src/base/check.h"

namespace memo {
namespace {

enum class Fault : std::uint8_t {
#define FAULT(name, unfit, withdrawn_if_short, run, verdict, next) name,
#include "src/engine/confidence.def"
};
enum class Run : std::uint8_t { kServed, kUneven, kShortly };

struct FaultRow {
  bool unfit;
  bool withdrawn_if_short;
  Run run;
  std::string_view verdict;
  std::string_view next;
};
constexpr FaultRow kFaults[] = {
#define FAULT(name, unfit, withdrawn_if_short, run, verdict, next) \
  {unfit, withdrawn_if_short, Run::run, verdict, next},
#include "src/engine/confidence.def"
};

struct EvidenceRow {
  Fault fault;
  std::string_view text;
};
constexpr EvidenceRow kEvidence[] = {
#define EVIDENCE(name, fault, text) {Fault::fault, text},
#include "src/engine/confidence.def"
};

constexpr StandingWords kStandings[] = {
#define STANDING(name, evidence, verdict, next) {evidence, verdict, next},
#include "src/engine/confidence.def"
};

}  // namespace

StandingWords words_of(Standing standing) {
  return kStandings[static_cast<std::size_t>(standing)];
}

StandingWords words_of(Evidence evidence) {
  const EvidenceRow& row = kEvidence[static_cast<std::size_t>(evidence)];
  const FaultRow& fault = kFaults[static_cast<std::size_t>(row.fault)];
  return {row.text, fault.verdict, fault.next};
}

std::optional<Evidence> Confidence::after_miss(const Health& health) const {
  if (health.lost()) {
    return health.outlived() ? Evidence::kInTheWay
           : health.unfit()  ? Evidence::kUneven
                             : Evidence::kMissed;
  }
  if (strange_ && health.misses_in_row() >= tuning::kMaxStrangeMisses) {
    return Evidence::kNeverCame;
  }
  return std::nullopt;
}

Judgement Confidence::judge(Evidence evidence, std::uint32_t iteration, std::uint64_t height,
                            std::uint32_t required, bool moves) {
  // Whatever ends it: what its first iteration has shown counts as well.
  const Fault fault =
      first.differs() ? Fault::kOutlived : kEvidence[static_cast<std::size_t>(evidence)].fault;
  const FaultRow& row = kFaults[static_cast<std::size_t>(fault)];

  Judgement judgement;
  const bool convinced = placed_ >= tuning::kConvincingRun;
  judgement.tried = lose_trial(iteration, height, moves);
  if (convinced) {
    trials_lost_ = 0;
    lost_bytes_ = 0;
  }
  // What another process has made, and has come here for most of its first iteration, is right: a
  // loop's first iteration may make calls that no later one has.
  const std::uint64_t least =
      strange_ ? iteration / 2 : tuning::kTrialIterations * std::uint64_t{iteration};
  const bool hardly = placed_ < least;
  // After a long run the program has gone on to something else, and may come back.
  judgement.verdict = row.unfit ? kUnfit : convinced ? 0U : kFailed;
  judgement.verdict |= judgement.tried || (hardly && row.withdrawn_if_short) ? kWithdrawn : 0U;
  judgement.gives_back = convinced || judgement.tried || strange_;
  // What was tried is no evidence against another loop, and another stream's plan is none against
  // this one's.
  if (!judgement.tried && own_) {
    const std::uint32_t uneven = tuning::kConvincingRun / 2;
    const std::uint32_t again = std::max(iteration, required);
    const auto served = static_cast<std::uint32_t>(std::min<std::uint64_t>(placed_, UINT32_MAX));
    judgement.run = row.run == Run::kServed   ? served
                    : row.run == Run::kUneven ? uneven
                                              : std::min(again, uneven);
  }
  return judgement;
}

bool Confidence::lose_trial(std::uint32_t iteration, std::uint64_t height, bool moves) {
  const bool own = tries_own();
  trial_ = 0;
  if (!own) {
    return false;
  }
  // Blocks that are resized move in a slab where they did not in the pool, at each trial.
  trials_lost_ = moves ? tuning::kNoMoreTrials : trials_lost_ + 1;
  lost_length_ = iteration;
  lost_bytes_ += height;
  return true;
}

}  // namespace memo
