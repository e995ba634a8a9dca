// Priorities, blame and the loop of passes. Cold.
#include "planner/squeaky_wheel.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/real_functions.h"
#include "planner/strategies.h"

namespace dsa {

SqueakyWheel::SqueakyWheel(const Model& model, std::uint64_t seed, double power)
    : model_(model),
      sky_(model),
      alive_(model),
      random_(seed),
      order_(model.items.size()),
      blamed_(model.items.size()),
      height_(std::numeric_limits<Bytes>::max()) {
  std::iota(order_.begin(), order_.end(), 0);
  for (const Item& item : model.items) {
    // The noise parts equal ones differently for each seed. Priorities keep the same spread.
    const double scale = 2 / (1 + power);
    priority_.push_back(scale * natural_log(static_cast<double>(item.size)) +
                        scale * power * natural_log(static_cast<double>(lifetime(model, item))) +
                        static_cast<double>(random_() >> 11) * 0x1p-53 * 1e-3);
  }
}

void SqueakyWheel::blame(Section section) {
  constexpr std::size_t kMaxWork = 100'000'000;  // a fraction of a second
  if (work_ > kMaxWork) {
    return;  // there is enough to learn from, and some problems have no end of it
  }
  alive_.for_each(section, [this](ItemId id) {
    ++work_;
    if (!sky_.placed(id)) {
      blamed_[static_cast<std::size_t>(id)] = 1;
    }
  });
}

void SqueakyWheel::run(const Budget& budget, std::size_t passes) {
  // As an e-fold of area. Less takes more passes to the bound, more leaps past good orders.
  // Measured: scripts/experiments/planner_acceptance.py, the table "nothing asked".
  constexpr double kGrease = 0.2;
  for (; passes > 0 && height_ > budget.target() && !exhausted_ && !budget.expired(); --passes) {
    std::sort(order_.begin(), order_.end(), [this](ItemId a, ItemId b) {
      const double x = priority_[static_cast<std::size_t>(a)];
      const double y = priority_[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    });
    work_ = 0;
    std::fill(blamed_.begin(), blamed_.end(), 0);
    tight_ = !tight_;
    auto offsets = sky_.pass(ranks_of(order_), budget, tight_, [&](const Demand::Most& most) {
      if (most.height > budget.target()) {
        blame(most.section);
      }
    });
    if (!offsets) {
      return;
    }
    if (const Bytes height = height_of(model_, *offsets); height < height_) {
      height_ = height;
      best_ = std::move(offsets);
    }
    bool any = false;
    for (std::size_t i = 0; i < priority_.size(); ++i) {
      priority_[i] += blamed_[i] != 0 ? kGrease : 0;
      any |= blamed_[i] != 0;
    }
    exhausted_ = !any;  // alignment or fixed offsets are to blame, and no order mends that
  }
}

Found squeaky_wheel(const Model& model, const Budget& budget) {
  if (fixed_overlap(model)) {
    return {.infeasible = true, .reason = kFixedConflict};
  }
  SqueakyWheel wheel(model, budget.seed());
  wheel.run(budget);
  return {.offsets = wheel.best(), .reason = wheel.best() ? "" : kOutOfTime};
}

}  // namespace dsa
