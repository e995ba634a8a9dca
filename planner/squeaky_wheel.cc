// Priorities, blame and the loop of passes. Cold.
#include "planner/squeaky_wheel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/strategies.h"

namespace dsa {

SqueakyWheel::SqueakyWheel(const Model& model, std::uint64_t seed)
    : model_(model),
      sky_(model),
      alive_(model),
      random_(seed),
      order_(model.items.size()),
      waste_(model.load.size()),
      blamed_(model.items.size()),
      height_(std::numeric_limits<Bytes>::max()) {
  std::iota(order_.begin(), order_.end(), 0);
  for (const Item& item : model.items) {
    // By area at first; the noise parts equal ones differently for each seed.
    priority_.push_back(std::log(static_cast<double>(item.size)) +
                        std::log(static_cast<double>(lifetime(model, item))) +
                        static_cast<double>(random_() >> 11) * 0x1p-53 * 1e-3);
  }
}

void SqueakyWheel::blame(const Span& span, Bytes rise, Bytes target) {
  constexpr std::size_t kMostWork = 200'000'000;  // a fraction of a second
  if (work_ > kMostWork) {
    return;  // there is enough to learn from, and some problems have no end of it
  }
  work_ += static_cast<std::size_t>(span.upper - span.lower);
  Section worst = -1;
  Bytes most = 0;
  for (Section s = span.lower; s < span.upper; ++s) {
    const auto index = static_cast<std::size_t>(s);
    waste_[index] += rise;
    const Bytes excess = waste_[index] - (target - model_.load[index]);
    if (excess > most) {
      most = excess;
      worst = s;
    }
  }
  if (worst >= 0) {
    alive_.for_each(worst, [this](ItemId id) {
      ++work_;
      if (!sky_.placed(id)) {
        blamed_[static_cast<std::size_t>(id)] = 1;
      }
    });
  }
}

void SqueakyWheel::run(const Budget& budget) {
  // As an e-fold of area. On iopddl S_1 (28,526 buffers, ten seeds) 0.2 takes 13 to 25 passes to
  // the bound, 0.1 takes 23 to 32, and 0.05 or 0.5 often more than 35.
  constexpr double kGrease = 0.2;
  while (height_ > budget.target() && !exhausted_ && !budget.expired()) {
    std::sort(order_.begin(), order_.end(), [this](ItemId a, ItemId b) {
      const double x = priority_[static_cast<std::size_t>(a)];
      const double y = priority_[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    });
    std::fill(waste_.begin(), waste_.end(), 0);
    work_ = 0;
    std::fill(blamed_.begin(), blamed_.end(), 0);
    auto offsets =
        sky_.pass(ranks_of(order_), budget, [&](const Span& span, Offset from, Offset to) {
          blame(span, to - from, budget.target());
          return true;
        });
    if (!offsets) {
      return;
    }
    if (model_.has_fixed) {
      offsets = settle(model_, *offsets, budget).offsets;
      if (!offsets) {
        return;
      }
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
  if (model.has_fixed) {  // contradictions are found, and named, by the simplest strategy
    if (Found found = first_fit(model, budget); found.infeasible) {
      return found;
    }
  }
  SqueakyWheel wheel(model, budget.seed());
  wheel.run(budget);
  return {.offsets = wheel.best(), .reason = wheel.best() ? "" : kOutOfTime};
}

}  // namespace dsa
