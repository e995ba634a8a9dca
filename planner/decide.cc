// The pool of tree searches, and the search for the least capacity that has a packing. Cold.
#include "planner/decide.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "planner/tree_search.h"

namespace dsa {
namespace {

// Which taste solves a problem within some hundred steps varies from problem to problem, and
// nothing measured tells which; so many are tried for a short time each, and all for longer and
// longer. The first ones solve most of the instances of tests/golden by themselves.
constexpr Taste kTastes[] = {
    {.lifetime = 2.0, .size = -0.4, .load = 0, .edge = 1.7, .flush = 0.25, .noise = 0},
    {.lifetime = 0.2, .size = -0.05, .load = 0, .edge = 0.7, .flush = 2.0, .noise = 0},
    {.lifetime = 1.3, .size = -0.3, .load = 6, .edge = 1.0, .flush = 2.0, .noise = 0.1},
};

double draw(std::mt19937_64& random, double least, double most) {
  return least + (most - least) * static_cast<double>(random() >> 11) * 0x1p-53;
}

Taste random_taste(std::mt19937_64& random) {
  Taste taste;
  taste.lifetime = draw(random, 0, 3);
  taste.size = draw(random, -0.5, 1);
  taste.load = std::max(draw(random, -8, 20), 0.0);
  taste.edge = draw(random, 0, 2.5);
  taste.flush = draw(random, 0, 2.5);
  const double noise = draw(random, 0, 1);
  taste.noise = 2 * noise * noise * noise;
  return taste;
}

constexpr std::size_t kMostSearches = 24;
constexpr double kFirstSlice = 0.25;  // seconds for the first question

}  // namespace

bool can_decide(const Model& model) {
  constexpr double kMostCells = 2e7;
  if (model.has_gaps || model.has_fixed) {
    return false;
  }
  double cells = 0;
  for (const Item& item : model.items) {
    cells += item.upper - item.lower;
  }
  return cells <= kMostCells;
}

Decision decide(const Model& model, Bytes capacity, const Budget& budget) {
  if (!can_decide(model)) {
    return {};
  }
  struct Searcher {
    std::unique_ptr<TreeSearch> search;
    double steps;  // of its next run
  };
  std::mt19937_64 random(budget.seed());
  std::vector<Searcher> pool;
  constexpr double kFirstSteps = 300;
  constexpr double kGrowth = 1.1;
  constexpr int kRuns = 12;
  for (std::size_t turn = 0; !budget.expired(); ++turn) {
    // The pool grows by one for each pass over all of it.
    const std::size_t size = pool.size();
    if (size < std::min(kMostSearches, turn + 1)) {
      const Taste taste = size < std::size(kTastes) ? kTastes[size] : random_taste(random);
      pool.push_back({std::make_unique<TreeSearch>(model, capacity, taste, random()), kFirstSteps});
    }
    for (std::size_t i = pool.size(); i-- > 0;) {
      Searcher& searcher = pool[i];
      for (int run = 0; run < kRuns && !budget.expired(); ++run, searcher.steps *= kGrowth) {
        switch (searcher.search->run(static_cast<std::uint64_t>(searcher.steps), budget)) {
          case TreeSearch::Result::kSolved:
            return {.offsets = searcher.search->offsets()};
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

Found minimize(const Model& model, Offsets best, const Budget& budget) {
  // Heights are multiples of this.
  Bytes grain = 0;
  for (const Item& item : model.items) {
    grain = std::gcd(grain, item.size);
    grain = item.alignment > 1 ? std::gcd(grain, item.alignment) : grain;
  }
  Bytes height = height_of(model, best);
  const auto round_up = [grain](Bytes bytes) { return grain > 0 ? align_up(bytes, grain) : bytes; };
  Bytes least = round_up(model.bound);  // nothing lower exists
  Found found{.offsets = std::move(best)};
  if (budget.has_capacity()) {  // one question, all the time for it
    Decision decision = decide(model, budget.target(), budget);
    if (decision.impossible) {
      return {.infeasible = true, .reason = "proved: there is no plan within the capacity"};
    }
    if (decision.offsets) {
      found.offsets = std::move(decision.offsets);
    }
    return found;
  }
  Bytes capacity = least;
  std::uint64_t seed = budget.seed();
  for (double slice = kFirstSlice; height > least && !budget.expired(); ++seed) {
    const Decision decision = decide(model, capacity, budget.part(capacity, slice, seed));
    if (decision.offsets) {
      found.offsets = *decision.offsets;
      height = height_of(model, *found.offsets);
      capacity = least;
    } else if (decision.impossible) {
      capacity = least = capacity + grain;
    } else if (const Bytes next = round_up(capacity + (height - capacity) / 2);
               next < height && next > capacity) {
      capacity = next;  // an easier question first
    } else {
      capacity = least;
      slice *= 2;
    }
  }
  found.optimal = height <= least;
  return found;
}

}  // namespace dsa
