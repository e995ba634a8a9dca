// Can a problem be packed within a capacity? Many tree searches of different taste, by turns. Cold.
#pragma once

#include "planner/strategy.h"

namespace dsa {

struct Decision {
  std::optional<Offsets> offsets = {};  // a packing within the capacity
  bool impossible = false;              // proved: there is none
};

// Neither, if the budget runs out first, or if the model is beyond the search (can_decide).
Decision decide(const Model& model, Bytes capacity, const Budget& budget);

// The tree search needs models without gaps and fixed offsets, and memory in proportion to the sum
// of all lifetimes.
bool can_decide(const Model& model);

// The search for the least height by decisions, from a plan that is known. `best` is only replaced
// by better ones. Found::optimal says that nothing lower exists; Found::infeasible
// that nothing within the capacity does.
Found minimize(const Model& model, Offsets best, const Budget& budget);

}  // namespace dsa
