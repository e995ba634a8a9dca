// The default planner: the cheapest strategies first, then the searches by turns, until the target
// or the deadline. Cold.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/canonical_search.h"
#include "planner/coalesce.h"
#include "planner/decide.h"
#include "planner/orders.h"
#include "planner/repair.h"
#include "planner/skyline.h"
#include "planner/squeaky_wheel.h"
#include "planner/strategies.h"
#include "planner/sweep_fit.h"
#include "planner/wrapped.h"

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
  Bytes height() const { return height_; }  // 0 without a plan
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
// With more than this, a pass over all of them takes a good part of a second.
constexpr std::size_t kManyItems = 100'000;
// Of the time that is left: for squeaky wheel on fewer, for repairing the sweep's plan of more.
constexpr double kFirstWheel = 0.6;
constexpr double kFirstRepair = 0.3;
// Above the bound by less than one in so many, repairs go on rather than passes over everything.
constexpr Bytes kNear = 32;
// Of the time, for joining what fits each other exactly; where that leaves more than one in so many
// items, they were not made to fit.
constexpr double kJoining = 0.6;
constexpr std::size_t kFewer = 2;
// Of what time is left then, for planning the joined ones of few items.
constexpr double kFewJoined = 0.25;
// Of what time is left, for loops cut open; the searches that know gaps have the rest.
constexpr double kWrapped = 0.8;
constexpr double kFirstSlice = 0.02;  // seconds for squeaky wheel's first turn

// Squeaky wheel and exact search, each for longer and longer: which one it takes shows only so.
void search_by_turns(const Model& model, const Budget& budget, SqueakyWheel& wheel, Best& best) {
  const bool small = model.items.size() <= kMostExact;
  std::optional<Descent> descent;
  if (small && !can_search(model) && can_decide(model)) {
    descent.emplace(model, budget.seed());
  }
  const bool exact = descent || can_search(model);
  std::uint64_t turn = budget.seed();
  for (double slice = kFirstSlice; !budget.expired(); slice *= 2, ++turn) {
    // Most of the time is the exact search's: what squeaky wheel reaches, it reaches soon.
    const Budget part = budget.part(budget.target(), 12 * slice, turn);
    if (exact && best.take(descent ? descent->run(*best.offsets(), part)
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

// Many items live at a time: repairs of short windows would have nothing to move.
bool is_deep(const Model& model) {
  constexpr std::size_t kShare = 50;
  std::vector<std::int32_t> change(model.load.size() + 1, 0);
  for (const Span& part : model.parts) {
    ++change[static_cast<std::size_t>(part.lower)];
    --change[static_cast<std::size_t>(part.upper)];
  }
  std::int32_t alive = 0;
  std::int32_t most = 0;
  for (const std::int32_t step : change) {
    most = std::max(most, alive += step);
  }
  return static_cast<std::size_t>(most) * kShare > model.items.size();
}

// For more items than searches of the whole can deal with.
bool plan_many(const Model& model, const Budget& budget, SqueakyWheel& wheel, Best& best) {
  const auto run_wheel = [&](double seconds, std::size_t passes) {
    wheel.run(budget.part(budget.target(), seconds, budget.seed()), passes);
    return wheel.best() && best.take({.offsets = wheel.best()});
  };
  const auto mend = [&](double seconds) {
    return best.offsets() &&
           best.take({.offsets = repair(model, *best.offsets(),
                                        budget.part(budget.target(), seconds, budget.seed()))});
  };
  const auto is_near = [&] {
    return best.offsets() && best.height() - model.bound < model.bound / kNear;
  };
  if (model.items.size() <= kManyItems) {
    // A pass that runs out of time is lost: where the sweep went wrong, the first has all of it.
    if ((!is_near() && run_wheel(budget.remaining(), 1)) ||
        run_wheel(kFirstWheel * budget.remaining(), SIZE_MAX)) {
      return true;
    }
  }
  // Where the load is near the bound for a short time only, the sweep's plan is nearly right
  // already; where it is so everywhere, the skyline's is.
  if (mend(kFirstRepair * budget.remaining()) || (is_near() && mend(budget.remaining()))) {
    return true;
  }
  return run_wheel(budget.remaining(), 1) || mend(budget.remaining());
}

Found search(const Model& model, const Budget& budget) {
  Best best(model, budget);
  const bool few = model.items.size() <= kFewItems;
  if (best.take(sweep_best_fit(model, budget, few ? 0 : model.bound)) ||
      (few && best.take(skyline(model, budget)))) {
    return best.result();
  }
  const bool deep = model.items.size() > kManyItems && is_deep(model);
  if (deep && best.take(long_lived_first(model, budget))) {
    return best.result();
  }
  // Its first pass is the skyline by area.
  SqueakyWheel wheel(model, budget.seed());
  if (few) {
    wheel.run(budget.part(budget.target(), kFirstSlice, budget.seed()));
    if ((wheel.best() && best.take({.offsets = wheel.best()})) ||
        best.take(greedy_by_size(model, budget)) || best.take(greedy_by_breadth(model, budget)) ||
        best.take(best_fit(model, budget)) ||
        (best.offsets() && best.take(settle(model, *best.offsets(), budget)))) {
      return best.result();
    }
  } else if (!deep && plan_many(model, budget, wheel, best)) {
    return best.result();
  }
  if (!best.offsets()) {
    return best.result();
  }
  if (model.items.size() <= kMostExact && !can_search(model) && is_wrapped(model) &&
      best.take(plan_wrapped(
          model, budget.part(budget.target(), kWrapped * budget.remaining(), budget.seed()),
          search))) {
    return best.result();
  }
  search_by_turns(model, budget, wheel, best);
  return best.result();
}

// All but the topmost item of a section take whole units of memory. Which is topmost is not worth
// the time if it saves less than this share of the bound.
Budget eased(const Model& model, const Budget& budget) {
  constexpr Bytes kLittle = 1000;
  const Bytes slack = model.unit - 1;
  if (budget.has_capacity() || slack > model.bound / kLittle) {
    return budget;
  }
  return budget.part(model.bound + slack, budget.remaining(), budget.seed());
}

}  // namespace

Found portfolio(const Model& model, const Budget& whole) {
  const Budget budget = eased(model, whole);
  if (!can_coalesce(model)) {
    return search(model, budget);
  }
  const Blocks blocks =
      coalesce(model, budget.part(budget.target(), kJoining * budget.remaining(), budget.seed()));
  if (blocks.roots() > model.items.size() / kFewer) {
    return search(model, budget);  // these fits were accidents
  }
  Best best(model, budget);
  // Of few, the tree search packs what was joined wrongly by itself.
  const double share = model.items.size() <= kFewItems ? kFewJoined : 1;
  Found joined = search(Model(problem_of(blocks)),
                        budget.part(budget.target(), share * budget.remaining(), budget.seed()));
  if (joined.offsets) {
    joined = {.offsets = take_apart(blocks, *joined.offsets)};  // what is proved is of the blocks
  }
  if (!best.take(std::move(joined))) {
    best.take(search(model, budget));
  }
  return best.result();
}

}  // namespace dsa
