// The exact strategy: a heuristic plan, then searches that improve on it or prove that nothing can.
// Cold.
#include "planner/canonical_search.h"
#include "planner/decide.h"
#include "planner/strategies.h"

namespace dsa {

Found exact(const Model& model, const Budget& budget) {
  Found found = skyline(model, budget);
  if (!found.offsets || height_of(model, *found.offsets) <= budget.target()) {
    return found;
  }
  if (!can_search(model) && can_decide(model)) {
    return Descent(model, budget.seed()).run(std::move(*found.offsets), budget);
  }
  return canonical_search(model, std::move(*found.offsets), budget);
}

}  // namespace dsa
