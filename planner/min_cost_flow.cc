// Shared objects by minimum cost flow: each buffer takes over the object of one that has died, for
// the price of the growth, or a new one, for the price of its size. Cold.
//
// All flows are of one unit from a buffer's death to another's birth, so the flow is an assignment
// of predecessors, which the Hungarian method solves. Source: Lee et al., "On-Device Neural Net
// Inference with Mobile GPUs", 2019, section 4; Kuhn, "The Hungarian method for the assignment
// problem", 1955, with potentials in O(n^3).
#include <algorithm>
#include <limits>

#include "planner/shared_objects.h"
#include "planner/strategies.h"

namespace dsa {
namespace {

// Rows are buffers, columns their predecessors; the second half of the columns stands for new
// objects.
class Assignment {
 public:
  explicit Assignment(const Model& model)
      : model_(model),
        rows_(model.items.size()),
        columns_(2 * rows_),
        row_price_(rows_ + 1),
        column_price_(columns_ + 1),
        row_of_(columns_ + 1, 0),
        from_(columns_ + 1) {}

  // Assigns one row after the other along the cheapest augmenting path; false if out of time.
  bool solve(const Budget& budget) {
    for (std::size_t row = 1; row <= rows_; ++row) {
      if (budget.expired()) {
        return false;
      }
      augment(row);
    }
    return true;
  }

  // The item whose object this one takes over, or its own number for none.
  std::vector<std::size_t> predecessors() const {
    std::vector<std::size_t> result(rows_);
    for (std::size_t column = 1; column <= columns_; ++column) {
      if (row_of_[column] != 0) {
        const std::size_t row = row_of_[column] - 1;
        result[row] = column <= rows_ ? column - 1 : row;
      }
    }
    return result;
  }

 private:
  static constexpr Bytes kNever = std::numeric_limits<Bytes>::max() / 4;

  Bytes cost(std::size_t row, std::size_t column) const {
    const Item& item = model_.items[row - 1];
    if (column > rows_) {
      return std::min(item.size, kNever - 1);
    }
    const Item& old = model_.items[column - 1];
    const Bytes greater = std::max(item.alignment, old.alignment);
    if (old.upper > item.lower || greater % std::min(item.alignment, old.alignment) != 0) {
      return kNever;
    }
    return std::max<Bytes>(item.size - old.size, 0);
  }

  void augment(std::size_t start) {
    row_of_[0] = start;
    std::size_t column = 0;
    std::vector<Bytes> slack(columns_ + 1, std::numeric_limits<Bytes>::max());
    std::vector<bool> used(columns_ + 1, false);
    do {
      used[column] = true;
      const std::size_t row = row_of_[column];
      Bytes delta = std::numeric_limits<Bytes>::max();
      std::size_t next = 0;
      for (std::size_t c = 1; c <= columns_; ++c) {
        if (used[c]) {
          continue;
        }
        const Bytes reduced = cost(row, c) - row_price_[row] - column_price_[c];
        if (reduced < slack[c]) {
          slack[c] = reduced;
          from_[c] = column;
        }
        if (slack[c] < delta) {
          delta = slack[c];
          next = c;
        }
      }
      for (std::size_t c = 0; c <= columns_; ++c) {
        if (used[c]) {
          row_price_[row_of_[c]] += delta;
          column_price_[c] -= delta;
        } else {
          slack[c] -= delta;
        }
      }
      column = next;
    } while (row_of_[column] != 0);
    for (; column != 0; column = from_[column]) {
      row_of_[column] = row_of_[from_[column]];
    }
  }

  const Model& model_;
  std::size_t rows_;
  std::size_t columns_;
  std::vector<Bytes> row_price_;
  std::vector<Bytes> column_price_;
  std::vector<std::size_t> row_of_;  // by column; 0 for none
  std::vector<std::size_t> from_;
};

}  // namespace

Found min_cost_flow(const Model& model, const Budget& budget) {
  Assignment assignment(model);
  if (!assignment.solve(budget)) {
    return {.reason = kOutOfTime};
  }
  const std::vector<std::size_t> predecessors = assignment.predecessors();
  SharedObjects objects(model);
  std::vector<std::size_t> object_of(model.items.size());
  for (const ItemId id : by_birth(model)) {  // predecessors are born, and die, before
    const auto i = static_cast<std::size_t>(id);
    std::size_t object = predecessors[i] == i ? SharedObjects::kNew : object_of[predecessors[i]];
    // Along a chain, alignments that divide their neighbours may not divide each other.
    if (object != SharedObjects::kNew && !objects.suits(object, id)) {
      object = SharedObjects::kNew;
    }
    objects.assign(id, object);
    object_of[i] = object == SharedObjects::kNew ? objects.count() - 1 : object;
  }
  return objects.plan(budget);
}

}  // namespace dsa
