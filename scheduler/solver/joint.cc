// OLLA's joint formulation: the order and the tensors' locations in one integer program, for
// comparison on small graphs. It minimises the height; overwriting is left out, and a workspace is
// a storage of its own.
#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/schedule.h"
#include "scheduler/index.h"
#include "scheduler/solver/olla.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

// The same problem with every workspace as an output that nobody reads, and without savings.
Problem with_workspaces_as_storages(const Problem& problem) {
  Problem result = problem;
  result.makes = {};
  for (NodeId n = 0; n < problem.nodes(); ++n) {
    std::vector<std::int32_t> makes(problem.makes[n].begin(), problem.makes[n].end());
    if (problem.workspace[at(n)] > 0) {
      makes.push_back(static_cast<StorageId>(result.storages.size()));
      result.storages.push_back({problem.workspace[at(n)], n, false});
      result.readers.push({});
    }
    result.makes.push(makes);
    result.workspace[at(n)] = 0;
    result.savings[at(n)].clear();
  }
  return result;
}

// Locations on top of the order's program.
class Locations {
 public:
  Locations(const Problem& problem, OllaModel& model, Bytes most)
      : problem_(problem), model_(model) {
    const auto height = static_cast<double>(most);
    for (const Storage& storage : problem.storages) {
      offsets_.push_back(
          model.program().add_continuous(0, height - static_cast<double>(storage.bytes)));
      model.program().at_most({{offsets_.back(), 1}, {model.peak(), -1}},
                              -static_cast<double>(storage.bytes));
    }
    const auto count = static_cast<StorageId>(problem.storages.size());
    for (StorageId i = 0; i < count; ++i) {
      for (StorageId j = i + 1; j < count; ++j) {
        separate(i, j, height);
      }
    }
  }

  std::vector<Bytes> offsets(const IntegerProgram::Solution& solution) const {
    std::vector<Bytes> result;
    for (const IntegerProgram::Column column : offsets_) {
      result.push_back(static_cast<Bytes>(std::llround(solution.values[at(column)])));
    }
    return result;
  }

 private:
  // Where both can live at once, one of them is below the other.
  void separate(StorageId i, StorageId j, double height) {
    IntegerProgram& program = model_.program();
    IntegerProgram::Column below = OllaModel::kAbsent;
    IntegerProgram::Column above = OllaModel::kAbsent;
    for (int t = 0; t < problem_.nodes(); ++t) {
      std::vector<IntegerProgram::Term> terms;
      bool live[2] = {false, false};
      for (const int k : {0, 1}) {
        const StorageId s = k == 0 ? i : j;
        for (const auto column : {model_.preserved(s, t), model_.created(s, t)}) {
          const bool there =
              std::ranges::any_of(terms, [&](const auto& term) { return term.first == column; });
          if (column != OllaModel::kAbsent && !there) {
            terms.emplace_back(column, 1);
          } else if (there) {
            std::ranges::find(terms, column, &IntegerProgram::Term::first)->second += 1;
          }
          live[k] = live[k] || column != OllaModel::kAbsent;
        }
      }
      if (!live[0] || !live[1]) {
        continue;
      }
      if (below == OllaModel::kAbsent) {
        below = program.add_binary();
        above = program.add_binary();
        program.at_most({{below, 1}, {above, 1}}, 1);
        const auto size_i = static_cast<double>(problem_.storage(i).bytes);
        const auto size_j = static_cast<double>(problem_.storage(j).bytes);
        const IntegerProgram::Column at_i = offsets_[at(i)];
        const IntegerProgram::Column at_j = offsets_[at(j)];
        program.at_most({{at_i, 1}, {at_j, -1}, {below, height}}, height - size_i);
        program.at_most({{at_j, 1}, {at_i, -1}, {above, height}}, height - size_j);
      }
      terms.emplace_back(below, -1);
      terms.emplace_back(above, -1);
      program.add_row(terms, -std::numeric_limits<double>::infinity(), 1);
    }
  }

  const Problem& problem_;
  OllaModel& model_;
  std::vector<IntegerProgram::Column> offsets_;
};

}  // namespace

void run_olla_joint(Search& search) {
  const Problem problem = with_workspaces_as_storages(search.problem);
  if (search.deadline.passed() || OllaModel::too_large(problem)) {
    return;
  }
  Bytes most = problem.base;  // side by side, everything fits
  for (const Storage& storage : problem.storages) {
    most += storage.bytes;
  }
  OllaModel model(problem, most);
  const Locations locations(problem, model, most);
  const auto solution = model.program().solve(search.deadline.seconds_left());
  if (!solution) {
    return;
  }
  const Order order = model.order_of(*solution);
  const std::vector<Bytes> offsets = locations.offsets(*solution);
  dsa::Plan plan;
  // placement() lists storages by the step that makes them, and a node's workspace after its
  // outputs.
  for (const NodeId n : order) {
    for (const StorageId s : problem.makes[n]) {
      plan.offsets.push_back(offsets[at(s)]);
      plan.height = std::max(plan.height, offsets[at(s)] + problem.storage(s).bytes);
    }
  }
  search.incumbent.offer(order, peak_of(search.problem, order), "olla-joint", std::move(plan));
}

}  // namespace schedule
