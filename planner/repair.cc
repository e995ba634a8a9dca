// The queue of places that are too high, and the windows around them. Cold.
#include "planner/repair.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "planner/section_items.h"
#include "planner/squeaky_wheel.h"

namespace dsa {
namespace {

class Repair {
 public:
  Repair(const Model& model, Offsets offsets, const Budget& budget)
      : model_(model),
        budget_(budget),
        offsets_(std::move(offsets)),
        alive_(model),
        tries_(model.items.size(), 0),
        first_born_(model.load.size() + 1, 0),
        is_chosen_(model.items.size(), 0),
        births_(model.parts.size()) {
    for (const Span& part : model.parts) {
      ++first_born_[static_cast<std::size_t>(part.lower) + 1];
    }
    std::partial_sum(first_born_.begin(), first_born_.end(), first_born_.begin());
    std::vector<std::uint32_t> next(first_born_);
    for (std::size_t i = 0; i < model.items.size(); ++i) {
      const auto id = static_cast<ItemId>(i);
      for (const Span& part : model.parts_of(model.items[i])) {
        births_[next[static_cast<std::size_t>(part.lower)]++] = {part.lower, id};
      }
    }
  }

  Offsets run() {
    // At first not to the last byte: a window that is nearly right is soon packed well enough.
    for (const Bytes slack : {budget_.target() / kFirstSlack, Bytes{0}}) {
      if (!lower(budget_.target() + slack)) {
        break;
      }
    }
    return std::move(offsets_);
  }

 private:
  // False if some place stays above the goal.
  bool lower(Bytes goal) {
    goal_ = goal;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      announce(static_cast<ItemId>(i));
    }
    while (!high_.empty() && !budget_.expired()) {
      const High high = high_.top();
      high_.pop();
      if (high.top != top(high.id)) {
        continue;  // it lies elsewhere by now
      }
      auto& tries = tries_[static_cast<std::size_t>(high.id)];
      if (tries > kMaxTries) {
        return false;  // and what is lower than this does not matter
      }
      // Each width is tried with both orders.
      mend(window(high.id, width(high.id) << (tries / 2)), high.top, tries % 2 == 0 ? 1 : 8);
      ++tries;
      if (high.top == top(high.id)) {
        high_.push(high);
      }
    }
    return high_.empty();
  }

  static constexpr std::size_t kMinWidth = 64;  // births on either side
  static constexpr std::uint8_t kMaxTries = 24;
  static constexpr Bytes kFirstSlack = 256;   // a share of the target
  static constexpr std::size_t kPasses = 16;  // of squeaky wheel, over a window

  struct High {
    Offset top;
    ItemId id;
    bool operator<(const High& other) const { return top < other.top; }
  };

  struct Birth {
    Section section;
    ItemId id;
  };

  const Item& item(ItemId id) const { return model_.items[static_cast<std::size_t>(id)]; }
  Offset top(ItemId id) const { return offsets_[static_cast<std::size_t>(id)] + item(id).size; }
  void announce(ItemId id) {
    if (top(id) > goal_) {
      high_.push({top(id), id});
    }
  }

  // Births on either side of the item in its first window: as many as are alive with it.
  std::size_t width(ItemId id) const {
    std::size_t alive = 0;
    alive_.for_each(item(id).lower, [&alive](ItemId) { ++alive; });
    return std::max(kMinWidth, alive);
  }

  // Sections in which so many are born before and after the item, a little more or less, so that
  // the window ends where the load is low.
  Span window(ItemId id, std::size_t width) const {
    const std::size_t before = first_born_[static_cast<std::size_t>(item(id).lower)];
    const std::size_t after = first_born_[static_cast<std::size_t>(item(id).upper)];
    const auto least = [this](Section lower, Section upper) {
      const auto begin = model_.load.begin();
      return static_cast<Section>(std::min_element(begin + lower, begin + upper) - begin);
    };
    Span span{0, static_cast<Section>(model_.load.size())};
    if (before > 2 * width) {
      span.lower = least(births_[before - 2 * width].section, births_[before - width].section + 1);
    }
    if (after + 2 * width < births_.size()) {
      span.upper = least(births_[after + width].section, births_[after + 2 * width].section + 1);
    }
    return span;
  }

  void choose(const Span& window) {
    for (const ItemId id : chosen_) {
      is_chosen_[static_cast<std::size_t>(id)] = 0;
    }
    chosen_.clear();
    const auto add = [this](ItemId id) {
      if (is_chosen_[static_cast<std::size_t>(id)] == 0) {  // else a part of it has been there
        is_chosen_[static_cast<std::size_t>(id)] = 1;
        chosen_.push_back(id);
      }
    };
    alive_.for_each(window.lower, add);
    for (auto i = first_born_[static_cast<std::size_t>(window.lower) + 1];
         i < first_born_[static_cast<std::size_t>(window.upper)]; ++i) {
      add(births_[i].id);
    }
  }

  // Packs the window again, in the order of that power at first; keeps that if it is lower than
  // `height`, which it is now.
  void mend(const Span& window, Bytes height, double power) {
    choose(window);
    const Model part = model_.part(window, chosen_, offsets_);
    SqueakyWheel wheel(part, budget_.seed(), power);
    wheel.run(budget_.part(goal_, budget_.remaining(), budget_.seed()), kPasses);
    if (!wheel.best() || wheel.best_height() >= height) {
      return;
    }
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      offsets_[static_cast<std::size_t>(chosen_[i])] = (*wheel.best())[i];
    }
    for (const ItemId id : chosen_) {
      announce(id);
    }
  }

  const Model& model_;
  const Budget& budget_;
  Offsets offsets_;
  Bytes goal_ = 0;
  SectionItems alive_;
  std::vector<std::uint8_t> tries_;
  std::vector<std::uint32_t> first_born_;  // by section: its births begin here in births_
  std::vector<std::uint8_t> is_chosen_;
  std::vector<Birth> births_;  // of parts, in order of time
  std::priority_queue<High> high_;
  std::vector<ItemId> chosen_;
};

}  // namespace

Offsets repair(const Model& model, Offsets offsets, const Budget& budget) {
  return Repair(model, std::move(offsets), budget).run();
}

}  // namespace dsa
