// Can a problem be packed within a capacity? Many tree searches of different weights, by turns.
// Cold.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "planner/strategy.h"
#include "planner/tree_search.h"

namespace dsa {

struct Decision {
  std::optional<Offsets> offsets = {};  // a packing within the capacity
  bool impossible = false;              // proved: there is none
};

// The tree search needs memory in proportion to the sum of all lifetimes.
bool can_decide(const Model& model);

// Many tree searches of different weights, by turns. They keep what they learnt from question to
// question.
class SearchPool {
 public:
  // Requires can_decide(model), and that the model outlives it.
  SearchPool(const Model& model, std::uint64_t seed) : model_(model), random_(seed) {}

  // Is there a packing within the capacity? Neither answer, if the budget runs out first.
  Decision ask(Bytes capacity, const Budget& budget);

 private:
  struct Searcher {
    std::unique_ptr<TreeSearch> search;
    double steps;  // of its next run
  };

  const Model& model_;
  std::mt19937_64 random_;
  std::vector<Searcher> searchers_;
};

// The search for the least height: asks whether there is a packing at the bound, then half, a
// quarter, an eighth... of the way from the known height down to it. After a yes it goes on with
// the same share, and all of it for longer and longer.
class Descent {
 public:
  // Requires can_decide(model), and that the model outlives it.
  Descent(const Model& model, std::uint64_t seed);

  // Goes on from a plan that is known; `best` is only replaced by better ones. Found::optimal says
  // that nothing lower exists; Found::infeasible that nothing within the capacity does.
  Found run(Offsets best, const Budget& budget);

 private:
  Found run_within_capacity(Offsets best, const Budget& budget);
  Bytes next_capacity(Bytes height) const;

  const Model& model_;
  SearchPool pool_;
  Bytes grain_ = 0;  // heights are multiples of this
  Bytes least_;      // nothing lower exists
  int level_ = 0;
  double slice_;
};

}  // namespace dsa
