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

Found search(const Model& model, const Budget& budget);

// A first-fit looks at all neighbours of each item: with more items than this, skyline passes are
// cheaper, and as good.
constexpr std::size_t kFewItems = 2000;
// The exact search decides nothing about more items than this in any useful time.
constexpr std::size_t kMaxExact = 5000;
// With more than this, a pass over all of them takes a good part of a second.
constexpr std::size_t kManyItems = 100'000;

// What stages are chosen by; bits, so that a stage may be for several.
enum Kind : unsigned {
  kFew = 1,   // at most kFewItems
  kSome = 2,  // at most kManyItems
  kMany = 4,
  kDeep = 8,  // more than those, and a good part of them alive at one time
};

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

Kind kind_of(const Model& model) {
  if (model.items.size() <= kFewItems) {
    return kFew;
  }
  if (model.items.size() <= kManyItems) {
    return kSome;
  }
  return is_deep(model) ? kDeep : kMany;
}

// One problem's way through the stages. Each stage returns true when there is nothing left to do,
// or no time for it.
class Portfolio {
 public:
  Portfolio(const Model& model, const Budget& budget)
      : model_(model), budget_(budget), kind_(kind_of(model)), best_(model, budget) {}

  Found run();

 private:
  struct Stage {
    unsigned kinds;  // which problems it is for
    bool (Portfolio::*run)();
  };

  // For any problem: one sweep over time.
  bool sweep() {
    return best_.take(sweep_best_fit(model_, budget_, kind_ == kFew ? 0 : model_.bound));
  }

  // For few items: what costs a few milliseconds.
  bool skyline_orders() { return best_.take(skyline(model_, budget_)); }
  bool short_wheel() { return run_wheel(kFirstSlice); }
  bool first_fits() {
    return best_.take(greedy_by_size(model_, budget_)) ||
           best_.take(greedy_by_breadth(model_, budget_)) || best_.take(best_fit(model_, budget_));
  }
  bool settled() {
    return best_.offsets() && best_.take(settle(model_, *best_.offsets(), budget_));
  }

  // For more than searches of the whole can deal with.
  bool long_lived() { return best_.take(long_lived_first(model_, budget_)); }
  bool wheel_passes();
  bool repairs();

  // For any that have a plan by now: what takes all the time there is.
  bool loops_cut_open();
  bool turns();

  bool run_wheel(double seconds, std::size_t passes = SIZE_MAX);
  bool mend(double seconds);
  bool is_near() const {
    return best_.offsets() && best_.height() - model_.bound < model_.bound / kNear;
  }
  Budget part(double seconds) const {
    return budget_.part(budget_.target(), seconds, budget_.seed());
  }
  SqueakyWheel& wheel() { return wheel_ ? *wheel_ : wheel_.emplace(model_, budget_.seed()); }

  static constexpr double kFirstSlice = 0.02;  // seconds for squeaky wheel's first turn
  // Above the bound by less than one in so many, repairs go on rather than passes over everything.
  static constexpr Bytes kNear = 32;

  const Model& model_;
  const Budget& budget_;
  const Kind kind_;
  Best best_;
  std::optional<SqueakyWheel> wheel_;  // its first pass is the skyline by area
};

Found Portfolio::run() {
  static constexpr Stage kStages[] = {
      {kFew | kSome | kMany | kDeep, &Portfolio::sweep},
      {kFew, &Portfolio::skyline_orders},
      {kFew, &Portfolio::short_wheel},
      {kFew, &Portfolio::first_fits},
      {kFew, &Portfolio::settled},
      {kSome, &Portfolio::wheel_passes},
      {kSome | kMany, &Portfolio::repairs},
      {kDeep, &Portfolio::long_lived},
      {kFew | kSome, &Portfolio::loops_cut_open},
      {kFew | kSome | kMany | kDeep, &Portfolio::turns},
  };
  for (const Stage& stage : kStages) {
    if ((stage.kinds & kind_) != 0 && (this->*stage.run)()) {
      break;
    }
  }
  return best_.result();
}

bool Portfolio::run_wheel(double seconds, std::size_t passes) {
  wheel().run(part(seconds), passes);
  return wheel().best() && best_.take({.offsets = wheel().best()});
}

bool Portfolio::mend(double seconds) {
  return best_.offsets() &&
         best_.take({.offsets = repair(model_, *best_.offsets(), part(seconds))});
}

bool Portfolio::wheel_passes() {
  constexpr double kShare = 0.6;  // of the time that is left
  // A pass that runs out of time is lost: where the sweep went wrong, the first has all of it.
  return (!is_near() && run_wheel(budget_.remaining(), 1)) ||
         run_wheel(kShare * budget_.remaining());
}

bool Portfolio::repairs() {
  constexpr double kShare = 0.3;  // of the time that is left
  // Where the load is near the bound for a short time only, the sweep's plan is nearly right
  // already; where it is so everywhere, the skyline's is.
  return mend(kShare * budget_.remaining()) || (is_near() && mend(budget_.remaining())) ||
         run_wheel(budget_.remaining(), 1) || mend(budget_.remaining());
}

bool Portfolio::loops_cut_open() {
  constexpr double kShare = 0.8;  // of the time that is left; searches that know gaps have the rest
  return best_.offsets() && model_.items.size() <= kMaxExact && !can_search(model_) &&
         is_wrapped(model_) &&
         best_.take(plan_wrapped(model_, part(kShare * budget_.remaining()), search));
}

// Squeaky wheel and exact search, each for longer and longer: which one it takes shows only so.
bool Portfolio::turns() {
  if (!best_.offsets()) {
    return true;
  }
  const bool small = model_.items.size() <= kMaxExact;
  std::optional<Descent> descent;
  if (small && !can_search(model_) && can_decide(model_)) {
    descent.emplace(model_, budget_.seed());
  }
  const bool exact = descent || can_search(model_);
  std::uint64_t turn = budget_.seed();
  for (double slice = kFirstSlice; !budget_.expired(); slice *= 2, ++turn) {
    // Most of the time is the exact search's: what squeaky wheel reaches, it reaches soon.
    const Budget slot = budget_.part(budget_.target(), 12 * slice, turn);
    if (exact && best_.take(descent ? descent->run(*best_.offsets(), slot)
                                    : canonical_search(model_, *best_.offsets(), slot))) {
      return true;
    }
    if (!exact && wheel().exhausted()) {
      return true;
    }
    wheel().run(budget_.part(budget_.target(), exact ? 2 * slice : budget_.remaining(), turn));
    if (wheel().best() && best_.take({.offsets = wheel().best()})) {
      return true;
    }
  }
  return true;
}

Found search(const Model& model, const Budget& budget) {
  return Portfolio(model, budget).run();
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

// Joins what fits each other exactly, and sends the joined ones through the stages first.
Found portfolio(const Model& model, const Budget& whole) {
  // Of the time, for joining; where that leaves more than one in so many items, they were not made
  // to fit.
  constexpr double kJoining = 0.6;
  constexpr std::size_t kFewer = 2;
  // Of what time is left then, for planning the joined ones of few items.
  constexpr double kFewJoined = 0.25;
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
  const Found joined =
      search(Model(problem_of(blocks)),
             budget.part(budget.target(), share * budget.remaining(), budget.seed()));
  // What is proved is of the blocks, be it that nothing is lower or that nothing fits.
  if (!best.take(joined.offsets ? Found{.offsets = take_apart(blocks, *joined.offsets)}
                                : Found{})) {
    best.take(search(model, budget));
  }
  return best.result();
}

}  // namespace dsa
