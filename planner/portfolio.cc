// The default planner: the cheapest strategies first, then the searches by turns, until the target
// or the deadline. Cold.
#include "planner/canonical_search.h"
#include "planner/decide.h"
#include "planner/orders.h"
#include "planner/squeaky_wheel.h"
#include "planner/strategies.h"
#include "planner/sweep_fit.h"

namespace dsa {
namespace {

// The best plan so far.
class Best {
 public:
  Best(const Model& model, const Budget& budget) : model_(model), budget_(budget) {}

  // True when there is nothing left to do, or no time for it.
  bool take(Found found) {
    if (found.infeasible) {
      best_ = std::move(found);
      return true;
    }
    if (found.offsets) {
      const Bytes height = height_of(model_, *found.offsets);
      const bool better = !best_.offsets || height < height_;
      if (better) {
        height_ = height;
        best_.offsets = std::move(found.offsets);
        best_.reason = {};
      }
      // What is proved of a plan is proved of the best.
      best_.optimal = (best_.optimal && !better) || found.optimal;
    } else if (!best_.offsets) {
      best_.reason = found.reason;
    }
    return best_.offsets && (height_ <= budget_.target() || best_.optimal || budget_.expired());
  }

  const std::optional<Offsets>& offsets() const { return best_.offsets; }
  Found result() { return std::move(best_); }

 private:
  const Model& model_;
  const Budget& budget_;
  Found best_;
  Bytes height_ = 0;
};

// A first-fit looks at all neighbours of each item: with more items than this, skyline passes are
// cheaper, and as good.
constexpr std::size_t kFewItems = 2000;
// The exact search decides nothing about more items than this in any useful time.
constexpr std::size_t kMostExact = 5000;
constexpr double kFirstSlice = 0.02;  // seconds for squeaky wheel's first turn

// Squeaky wheel and exact search, each for longer and longer: which one it takes shows only so.
void search_by_turns(const Model& model, const Budget& budget, SqueakyWheel& wheel, Best& best) {
  std::uint64_t turn = budget.seed();
  for (double slice = kFirstSlice; !budget.expired(); slice *= 2, ++turn) {
    // Most of the time is the exact search's: what squeaky wheel reaches, it reaches soon.
    const Budget part = budget.part(budget.target(), 12 * slice, turn);
    const bool small = model.items.size() <= kMostExact;
    const bool exact = small && (can_decide(model) || can_search(model));
    if (exact && best.take(can_decide(model) ? minimize(model, *best.offsets(), part)
                                             : canonical_search(model, *best.offsets(), part))) {
      return;
    }
    if (!exact && wheel.exhausted()) {
      return;
    }
    wheel.run(budget.part(budget.target(), exact ? 2 * slice : budget.remaining(), turn));
    if (wheel.best() && best.take({.offsets = wheel.best()})) {
      return;
    }
  }
}

}  // namespace

Found portfolio(const Model& model, const Budget& budget) {
  Best best(model, budget);
  const bool few = model.items.size() <= kFewItems;
  if (best.take(sweep_best_fit(model, budget)) ||
      (few && (best.take(skyline(model, budget)) || best.take(greedy_by_size(model, budget))))) {
    return best.result();
  }
  // Its first pass is the skyline by area, and of large problems there may be time for few passes.
  SqueakyWheel wheel(model, budget.seed());
  wheel.run(budget.part(budget.target(), few ? kFirstSlice : budget.remaining(), budget.seed()));
  if (wheel.best() && best.take({.offsets = wheel.best()})) {
    return best.result();
  }
  if (few && (best.take(best_fit(model, budget)) || best.take(greedy_by_breadth(model, budget)) ||
              (best.offsets() && best.take(settle(model, *best.offsets(), budget))))) {
    return best.result();
  }
  if (!best.offsets()) {
    return best.result();
  }
  search_by_turns(model, budget, wheel, best);
  return best.result();
}

}  // namespace dsa
