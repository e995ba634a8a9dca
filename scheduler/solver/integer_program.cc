// Hands an integer program to CBC.
#include "scheduler/solver/integer_program.h"

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

namespace schedule {

IntegerProgram::Column IntegerProgram::add(double lower, double upper, double objective,
                                           bool integer) {
  lower_.push_back(lower);
  upper_.push_back(upper);
  objective_.push_back(objective);
  integer_.push_back(integer);
  return static_cast<Column>(lower_.size() - 1);
}

void IntegerProgram::add_row(std::span<const Term> terms, double lower, double upper) {
  for (const auto& [column, value] : terms) {
    entries_.push_back({static_cast<int>(row_lower_.size()), column, value});
  }
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
}

void IntegerProgram::at_most(std::initializer_list<Term> terms, double upper) {
  add_row({terms.begin(), terms.size()}, -std::numeric_limits<double>::infinity(), upper);
}

std::optional<IntegerProgram::Solution> IntegerProgram::solve(double seconds) const {
  std::vector<Entry> sorted = entries_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Entry& a, const Entry& b) { return a.column < b.column; });
  std::vector<CoinBigIndex> starts(columns() + 1);
  std::vector<int> rows;
  std::vector<double> values;
  for (const Entry& entry : sorted) {
    ++starts[static_cast<std::size_t>(entry.column) + 1];
    rows.push_back(entry.row);
    values.push_back(entry.value);
  }
  for (std::size_t i = 0; i < columns(); ++i) {
    starts[i + 1] += starts[i];
  }
  const std::unique_ptr<Cbc_Model, void (*)(Cbc_Model*)> model(Cbc_newModel(), Cbc_deleteModel);
  Cbc_setLogLevel(model.get(), 0);
  Cbc_loadProblem(model.get(), static_cast<int>(columns()), static_cast<int>(row_lower_.size()),
                  starts.data(), rows.data(), values.data(), lower_.data(), upper_.data(),
                  objective_.data(), row_lower_.data(), row_upper_.data());
  for (std::size_t i = 0; i < columns(); ++i) {
    if (integer_[i]) {
      Cbc_setInteger(model.get(), static_cast<int>(i));
    }
  }
  Cbc_setParameter(model.get(), "timeMode", "elapsed");
  Cbc_setParameter(model.get(), "seconds", std::to_string(seconds).c_str());
  Cbc_solve(model.get());
  const double* solution = Cbc_getColSolution(model.get());
  const bool optimal = Cbc_isProvenOptimal(model.get()) != 0;
  // Stopped early, CBC may hand back the relaxation: take only what is integral.
  for (std::size_t i = 0; i < columns() && solution != nullptr; ++i) {
    const double value = solution[i];
    if (integer_[i] && std::abs(value - (value > 0.5 ? 1.0 : 0.0)) > 1e-4) {
      return std::nullopt;
    }
  }
  if (solution == nullptr || Cbc_isProvenInfeasible(model.get()) != 0) {
    return std::nullopt;
  }
  return Solution{
      {solution, solution + columns()}, Cbc_getBestPossibleObjValue(model.get()), optimal};
}

}  // namespace schedule
