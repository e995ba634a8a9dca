// A mixed-integer program built row by row, solved by COIN-OR CBC through its C interface. Cold.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace schedule {

class IntegerProgram {
 public:
  using Column = int;
  using Term = std::pair<Column, double>;

  Column add_binary(double objective = 0) { return add(0, 1, objective, true); }
  Column add_continuous(double lower, double upper, double objective = 0) {
    return add(lower, upper, objective, false);
  }
  void fix(Column column, double value) {
    lower_[static_cast<std::size_t>(column)] = upper_[static_cast<std::size_t>(column)] = value;
  }
  // lower <= sum of the terms <= upper; each column at most once.
  void add_row(std::span<const Term> terms, double lower, double upper);
  void at_most(std::initializer_list<Term> terms, double upper);

  struct Solution {
    std::vector<double> values;  // per column
    double bound = 0;            // of the objective; no solution is lower
    bool optimal = false;
  };
  // Minimises the objective. None if no solution was found in the time.
  std::optional<Solution> solve(double seconds) const;

  std::size_t columns() const { return lower_.size(); }

 private:
  Column add(double lower, double upper, double objective, bool integer);

  std::vector<double> lower_, upper_, objective_;
  std::vector<bool> integer_;
  std::vector<double> row_lower_, row_upper_;
  struct Entry {
    int row;
    Column column;
    double value;
  };
  std::vector<Entry> entries_;
};

}  // namespace schedule
