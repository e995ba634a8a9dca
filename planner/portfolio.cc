// The default planner: the cheapest strategies first, until the target or the deadline. Cold.
#include "planner/orders.h"
#include "planner/strategies.h"

namespace dsa {
namespace {

// The best plan so far.
class Best {
 public:
  Best(const Model& model, const Budget& budget) : model_(model), budget_(budget) {}

  // True when there is nothing left to do.
  bool take(Found found) {
    if (found.infeasible) {
      best_.infeasible = true;
      best_.reason = found.reason;
      return true;
    }
    if (found.offsets) {
      const Bytes height = height_of(model_, *found.offsets);
      if (!best_.offsets || height < height_) {
        height_ = height;
        best_ = std::move(found);
      }
    } else if (!best_.offsets) {
      best_.reason = found.reason;
    }
    return best_.offsets && (height_ <= budget_.target() || best_.optimal);
  }

  Found result() { return std::move(best_); }

 private:
  const Model& model_;
  const Budget& budget_;
  Found best_;
  Bytes height_ = 0;
};

// Above this many items a first-fit in any order costs more than all skyline passes together.
constexpr std::size_t kFewItems = 20000;

}  // namespace

Found portfolio(const Model& model, const Budget& budget) {
  Best best(model, budget);
  const bool few = model.items.size() <= kFewItems;
  if (few && best.take(greedy_by_size(model, budget))) {
    return best.result();
  }
  if (best.take(skyline(model, budget))) {
    return best.result();
  }
  return best.result();
}

}  // namespace dsa
