// The default: cheap strategies on the whole graph, then the exact search between articulation
// points, on coarse sizes first, then beam and local search until the time is up.
#include <array>

#include "scheduler/strategies.h"

namespace schedule {
namespace {

struct Stage {
  Run run;
  double share;  // of the time that is left when it begins
};

// Shares leave later stages something to do; a stage that finishes early passes its time on.
constexpr std::array<Stage, 10> kStages{{{run_subtrees, 0.2},
                                         {run_list, 0.2},
                                         {run_eager, 0.2},
                                         {run_cuts, 0.3},
                                         {run_coarse, 0.25},
                                         {run_beam, 0.3},
                                         {run_windows, 0.4},
                                         {run_precedences, 0.8},
                                         {run_cuts, 0.5},
                                         {run_coarse, 1.0}}};

}  // namespace

void run_portfolio(Search& search) {
  for (const Stage& stage : kStages) {
    if (search.over()) {
      return;
    }
    Search part{search.problem, search.incumbent,
                search.deadline.within(search.deadline.seconds_left() * stage.share), search.seed};
    stage.run(part);
  }
}

}  // namespace schedule
