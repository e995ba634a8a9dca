// The seam between the strategy `mip` and the solver behind it. Cold.
#pragma once

#include <vector>

#include "planner/mip_model.h"
#include "planner/strategy.h"

namespace dsa {

struct MipSolution {
  std::vector<double> values;  // by column; empty if none was found
  bool optimal = false;        // proved
  bool infeasible = false;     // proved
};

// Weak: present only in programs that link planner/solver, so that the library needs no solver.
[[gnu::weak]] MipSolution solve_mip(const MipModel& mip, const Budget& budget);

}  // namespace dsa
