// The strategy `mip`: through a solver that may or may not be linked in. Cold.
#include "planner/mip.h"

#include <algorithm>

#include "planner/orders.h"
#include "planner/real_functions.h"
#include "planner/strategies.h"

namespace dsa {

Found mip(const Model& model, const Budget& budget) {
  if (solve_mip == nullptr) {
    return {.reason = "this program is built without COIN-OR CBC, which solves the MIP"};
  }
  constexpr std::size_t kMaxRows = 400000;  // beyond, building the program alone takes seconds
  // A solver takes what is within a millionth of a whole number for one. Which buffer is on top is
  // such a number, times the height: in more units than this, the slip moves buffers, and what the
  // solver proves is not so.
  constexpr double kMaxUnits = 1e6;
  Found start = skyline(model, budget);
  if (!start.offsets) {
    return start;
  }
  std::size_t pairs = 0;
  for (const Bytes load : model.load) {
    pairs += load > 0 ? 1 : 0;
  }
  for (const Item& item : model.items) {
    pairs += static_cast<std::size_t>(lifetime(model, item));
  }
  if (pairs > kMaxRows || model.items.size() > 1500) {
    return {.reason = "the problem is too large for the MIP"};
  }
  const Bytes known = height_of(model, *start.offsets);
  const MipModel program(model, known);
  if (std::none_of(program.columns.begin(), program.columns.end(),
                   [](const MipModel::Column& column) { return column.integer; })) {
    return start;  // no two buffers conflict: there is nothing to decide
  }
  const MipSolution solution = solve_mip(program, budget);
  if (solution.infeasible || solution.values.empty()) {
    return start;  // which is a plan: a proof that there is none is a slip of the solver's
  }
  // The solver's numbers are floating point; the order of the offsets is what is taken from it.
  Offsets offsets(model.items.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[i] = nearest(solution.values[i + 1] * program.unit);
  }
  Found found = settle(model, offsets, budget);
  if (!found.offsets || height_of(model, *found.offsets) > known) {
    return start;
  }
  if (solution.optimal && static_cast<double>(known) / program.unit <= kMaxUnits) {
    const double least = solution.values[0] * program.unit;
    found.optimal =
        static_cast<double>(height_of(model, *found.offsets)) <= least + program.unit / 2;
  }
  return found;
}

}  // namespace dsa
