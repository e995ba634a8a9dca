// The pool of tree searches, and the search for the least capacity that has a packing. Cold.
#include "planner/decide.h"

#include <algorithm>
#include <numeric>

namespace dsa {
namespace {

// Which weights solve a problem within some hundred steps varies from problem to problem, and no
// rule predicts it. So the search tries many weights for a short time each, and then all of them
// for longer and longer. The first ones solve most of the instances of tests/golden by themselves.
constexpr SearchWeights kSearchWeights[] = {
    {.lifetime = 2.0, .size = -0.4, .load = 0, .edge = 1.7, .flush = 0.25, .noise = 0},
    {.lifetime = 0.2, .size = -0.05, .load = 0, .edge = 0.7, .flush = 2.0, .noise = 0},
    {.lifetime = 1.3, .size = -0.3, .load = 6, .edge = 1.0, .flush = 2.0, .noise = 0.1},
};

double draw(std::mt19937_64& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random() >> 11) * 0x1p-53;
}

SearchWeights random_weights(std::mt19937_64& random) {
  SearchWeights weights;
  weights.lifetime = draw(random, 0, 3);
  weights.size = draw(random, -0.5, 1);
  weights.load = std::max(draw(random, -8, 20), 0.0);
  weights.edge = draw(random, 0, 2.5);
  weights.flush = draw(random, 0, 2.5);
  const double noise = draw(random, 0, 1);
  weights.noise = 2 * noise * noise * noise;
  return weights;
}

constexpr std::size_t kMaxSearches = 24;
constexpr double kFirstSlice = 0.25;  // seconds for the first question
constexpr int kMaxLevel = 5;          // smaller steps than a thirty-second are not worth a question

}  // namespace

bool can_decide(const Model& model) {
  constexpr double kMaxCells = 2e7;
  double cells = 0;
  for (const Span& part : model.parts) {
    cells += part.upper - part.lower;
  }
  return cells <= kMaxCells;
}

Decision SearchPool::ask(Bytes capacity, const Budget& budget) {
  constexpr double kFirstSteps = 300;
  constexpr double kGrowth = 1.1;
  constexpr int kRuns = 12;
  for (Searcher& searcher : searchers_) {
    searcher.search->aim(capacity);
    searcher.steps = kFirstSteps;
  }
  for (std::size_t turn = 0; !budget.expired(); ++turn) {
    // One more takes part in each pass over all of them.
    const std::size_t size = searchers_.size();
    if (size < std::min(kMaxSearches, turn + 1)) {
      const SearchWeights weights =
          size < std::size(kSearchWeights) ? kSearchWeights[size] : random_weights(random_);
      searchers_.push_back(
          {std::make_unique<TreeSearch>(model_, capacity, weights, random_()), kFirstSteps});
    }
    for (std::size_t i = std::min(searchers_.size(), turn + 1); i-- > 0;) {
      Searcher& searcher = searchers_[i];
      for (int run = 0; run < kRuns && !budget.expired(); ++run, searcher.steps *= kGrowth) {
        switch (searcher.search->run(static_cast<std::uint64_t>(searcher.steps), budget)) {
          case TreeSearch::Result::kSolved: {
            Decision decision{.offsets = searcher.search->offsets()};
            // What answered one question is the first to try the next.
            std::rotate(searchers_.begin(), searchers_.begin() + static_cast<std::ptrdiff_t>(i),
                        searchers_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            return decision;
          }
          case TreeSearch::Result::kImpossible:
            return {.impossible = true};
          case TreeSearch::Result::kStopped:
            break;
        }
      }
    }
  }
  return {};
}

Descent::Descent(const Model& model, std::uint64_t seed)
    : model_(model), pool_(model, seed), slice_(kFirstSlice) {
  for (const Item& item : model.items) {
    grain_ = std::gcd(grain_, item.size);
    grain_ = item.alignment > 1 ? std::gcd(grain_, item.alignment) : grain_;
    grain_ = item.fixed != kNotFixed ? std::gcd(grain_, item.fixed) : grain_;
  }
  grain_ = std::max<Bytes>(grain_, 1);
  least_ = align_up(model.bound, grain_);
}

Bytes Descent::next_capacity(Bytes height) const {
  const Bytes step = (height - least_) >> level_;
  return height - std::max(grain_, step / grain_ * grain_);
}

Found Descent::run(Offsets best, const Budget& budget) {
  if (budget.has_capacity()) {
    return run_within_capacity(std::move(best), budget);
  }
  Bytes height = height_of(model_, best);
  Found found{.offsets = std::move(best)};
  while (height > std::max(least_, budget.target()) && !budget.expired()) {
    const Bytes capacity = next_capacity(height);
    Decision decision = pool_.ask(capacity, budget.part(capacity, slice_, budget.seed()));
    if (decision.offsets) {
      found.offsets = std::move(decision.offsets);
      height = height_of(model_, *found.offsets);
    } else if (decision.impossible) {
      least_ = capacity + grain_;
    } else {
      ++level_;
      if (level_ > kMaxLevel || (height - least_) >> level_ < grain_) {
        level_ = 0;
        slice_ *= 2;
      }
    }
  }
  found.optimal = height <= least_;
  return found;
}

// One question, all the time of this run for it, and other weights in the next.
Found Descent::run_within_capacity(Offsets best, const Budget& budget) {
  Decision decision = SearchPool(model_, budget.seed()).ask(budget.target(), budget);
  if (decision.impossible) {
    return {.infeasible = true, .reason = "proved: there is no plan within the capacity"};
  }
  return {.offsets = decision.offsets ? std::move(decision.offsets) : std::move(best)};
}

}  // namespace dsa
