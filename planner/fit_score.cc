// The score of a fit, and the search for a third block. Cold.
#include "planner/fit_score.h"

#include <algorithm>
#include <numeric>

namespace dsa {
namespace {

// Measured on rectangles cut into 10^5 and 10^6 pieces: with a tenth or ten times of either, up to
// twice as many blocks were left over. Set by straight cuts (bench::guillotine), so other cuts and
// seeds judge them: the table "nothing asked" of scripts/experiments/planner_acceptance.py.
constexpr float kTwins = 10;  // an equal life of one section tells as much as an equal size of this
constexpr float kThird = 10;  // how much the fit of a third block counts
constexpr int kMaxScanned = 32;

}  // namespace

FitScore::FitScore(const Blocks& blocks) : blocks_(blocks) {
  for (Index i = 0; i < blocks.end(); ++i) {
    grain_ = std::gcd(grain_, blocks[i].size);
  }
}

float FitScore::operator()(Index a, Index b) const {
  const Blocks::Block& x = blocks_[a];
  const Blocks::Block& y = blocks_[b];
  const bool twins = blocks_.twins(a, b);
  const float own = twins ? of_twins(x.span, blocks_.count(Blocks::kBegin, x.span.lower) - 1,
                                     blocks_.count(Blocks::kEnd, x.span.upper) - 1)
                          : of_size(x.size, x.span.upper);
  const float third =
      of_third(a, b, {x.span.lower, y.span.upper}, twins ? x.size + y.size : x.size);
  return own * std::max(1.0F, kThird * third);
}

float FitScore::of_twins(const Span& span, std::uint32_t begins, std::uint32_t ends) const {
  return kTwins * static_cast<float>(span.upper - span.lower) /
         (static_cast<float>(begins) * static_cast<float>(ends));
}

float FitScore::of_size(Bytes size, Section at) const {
  const Bytes grains = size / grain_;
  return static_cast<float>(grains) / (static_cast<float>(blocks_.count(Blocks::kBegin, at)) *
                                       static_cast<float>(blocks_.count(Blocks::kEnd, at)));
}

// The most surprising fit of the block that a and b would make.
float FitScore::of_third(Index a, Index b, const Span& span, Bytes size) const {
  const auto any = [&](Blocks::Side side, Section at, auto fits) {
    int scanned = 0;
    for (Index i = blocks_.head(side, at); i != Blocks::kNone && scanned < kMaxScanned;
         i = blocks_[i].next[side], ++scanned) {
      if (i != a && i != b && fits(blocks_[i])) {
        return true;
      }
    }
    return false;
  };
  const auto equal_size = [size](const Blocks::Block& block) { return block.size == size; };
  float most = 0;
  if (any(Blocks::kBegin, span.lower,
          [&](const Blocks::Block& block) { return block.span.upper == span.upper; })) {
    most = of_twins(span, blocks_.count(Blocks::kBegin, span.lower),
                    blocks_.count(Blocks::kEnd, span.upper));
  }
  if (any(Blocks::kEnd, span.lower, equal_size)) {
    most = std::max(most, of_size(size, span.lower));
  }
  if (any(Blocks::kBegin, span.upper, equal_size)) {
    most = std::max(most, of_size(size, span.upper));
  }
  return most;
}

}  // namespace dsa
