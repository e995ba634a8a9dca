// Solves the placement program with COIN-OR CBC. Cold; only in programs that link CBC.
#include <Cbc_C_Interface.h>

#include <limits>
#include <memory>

#include "planner/mip.h"

namespace dsa {
namespace {

struct Delete {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};

// Column by column, as CBC takes it.
void load(Cbc_Model* cbc, const MipModel& mip) {
  std::vector<std::vector<std::pair<int, double>>> entries(mip.columns.size());
  std::vector<double> row_lower;
  std::vector<double> row_upper;
  for (std::size_t r = 0; r < mip.rows.size(); ++r) {
    for (const MipModel::Term& term : mip.rows[r].terms) {
      entries[static_cast<std::size_t>(term.column)].emplace_back(static_cast<int>(r), term.factor);
    }
    row_lower.push_back(mip.rows[r].at_least);
    row_upper.push_back(mip.rows[r].equal ? mip.rows[r].at_least
                                          : std::numeric_limits<double>::max());
  }
  std::vector<CoinBigIndex> starts{0};
  std::vector<int> rows;
  std::vector<double> factors;
  std::vector<double> lower;
  std::vector<double> upper;
  std::vector<double> objective(mip.columns.size(), 0);
  objective[0] = 1;
  for (std::size_t c = 0; c < mip.columns.size(); ++c) {
    for (const auto& [row, factor] : entries[c]) {
      rows.push_back(row);
      factors.push_back(factor);
    }
    starts.push_back(static_cast<CoinBigIndex>(rows.size()));
    lower.push_back(mip.columns[c].lower);
    upper.push_back(mip.columns[c].upper);
  }
  Cbc_loadProblem(cbc, static_cast<int>(mip.columns.size()), static_cast<int>(mip.rows.size()),
                  starts.data(), rows.data(), factors.data(), lower.data(), upper.data(),
                  objective.data(), row_lower.data(), row_upper.data());
  for (std::size_t c = 0; c < mip.columns.size(); ++c) {
    if (mip.columns[c].integer) {
      Cbc_setInteger(cbc, static_cast<int>(c));
    }
  }
}

}  // namespace

MipSolution solve_mip(const MipModel& mip, const Budget& budget) {
  const std::unique_ptr<Cbc_Model, Delete> cbc(Cbc_newModel());
  Cbc_setParameter(cbc.get(), "log", "0");   // CBC's own messages,
  Cbc_setParameter(cbc.get(), "slog", "0");  // and its linear solver's: stdout is the caller's
  Cbc_setParameter(cbc.get(), "seconds", std::to_string(budget.remaining()).c_str());
  Cbc_setParameter(cbc.get(), "timeMode", "elapsed");
  load(cbc.get(), mip);
  Cbc_solve(cbc.get());
  MipSolution solution;
  solution.infeasible = Cbc_isProvenInfeasible(cbc.get()) != 0;
  solution.optimal = Cbc_isProvenOptimal(cbc.get()) != 0;
  const double* values = Cbc_getColSolution(cbc.get());
  // Cut short without a solution, CBC reports a relaxation's or nothing: its objective says so.
  if (values != nullptr && !solution.infeasible && Cbc_getObjValue(cbc.get()) < 1e30) {
    solution.values.assign(values, values + mip.columns.size());
  }
  return solution;
}

}  // namespace dsa
