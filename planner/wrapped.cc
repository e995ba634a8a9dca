// The period cut open, and its arcs. Cold.
#include "planner/wrapped.h"

#include <algorithm>
#include <limits>

#include "planner/orders.h"

namespace dsa {
namespace {

// Of the time that is left, for each question. On ten problems of 1,000 buffers a third for the first leaves time for
// a second where that was not enough.
constexpr double kFirstShare = 0.3;
constexpr double kGrowth = 1.5;
// Where the arc ends, as shares of the period: a short one is soon packed, a long one leaves more freedom.
constexpr double kEnds[] = {0.5, 0.25, 0.75};
// The end is moved to where the least is alive, within this share of the period on either side.
constexpr double kNearby = 0.05;

class Period {
 public:
  Period(const Model& model, const Budget& budget, Found (*search)(const Model&, const Budget&))
      : model_(model), budget_(budget), search_(search), open_(problem_of(all_parts(), nullptr)) {}

  Found run() {
    const auto sections = static_cast<double>(model_.load.size());
    double slice = kFirstShare * budget_.remaining();
    for (std::uint64_t round = 0; !budget_.expired(); ++round, slice *= kGrowth) {
      improve_open(budget_.part(budget_.target(), slice, budget_.seed() + round));
      for (const double end : kEnds) {
        if (open_height_ < height_ && height_ > budget_.target() && !budget_.expired()) {
          close(quiet_near(static_cast<Section>(end * sections)), slice);
        }
      }
      if (height_ <= budget_.target()) {
        break;
      }
    }
    return {.offsets = std::move(best_), .reason = best_ ? "" : kOutOfTime};
  }

 private:
  struct Part {
    ItemId item;
    Span span;
    bool comes_round;
  };

  std::vector<Part> all_parts() const {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < model_.items.size(); ++i) {
      for (const Span& span : model_.parts_of(model_.items[i])) {
        parts.push_back({static_cast<ItemId>(i), span, model_.items[i].gapped()});
      }
    }
    return parts;
  }

  const Item& item(const Part& part) const {
    return model_.items[static_cast<std::size_t>(part.item)];
  }

  // One buffer for each part; `fixed` has the offsets of those that have to keep them, by part.
  Problem problem_of(const std::vector<Part>& parts, const std::vector<Offset>* fixed) const {
    Problem problem;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Item& own = item(parts[i]);
      Buffer buffer{.lower = parts[i].span.lower, .upper = parts[i].span.upper, .size = own.size};
      buffer.alignment = own.alignment;
      if (fixed != nullptr && (*fixed)[i] != kNotFixed) {
        buffer.fixed = (*fixed)[i];
      }
      problem.buffers.push_back(buffer);
    }
    return problem;
  }

  // A lower plan of the period cut open; the offsets of items that come round are those at its end.
  void improve_open(const Budget& budget) {
    const Found found = search_(open_, budget);
    if (!found.offsets || height_of(open_, *found.offsets) >= open_height_) {
      return;
    }
    open_height_ = height_of(open_, *found.offsets);
    open_offsets_.assign(model_.items.size(), 0);
    const std::vector<Part> parts = all_parts();
    for (std::size_t k = 0; k < open_.items.size(); ++k) {
      const Part& part = parts[open_.source[k]];
      if (part.span.upper == item(part).upper) {
        open_offsets_[static_cast<std::size_t>(part.item)] = (*found.offsets)[k];
      }
    }
  }

  // The section near this one at which the least is alive.
  Section quiet_near(Section section) const {
    const auto sections = static_cast<Section>(model_.load.size());
    const auto reach = static_cast<Section>(kNearby * static_cast<double>(sections));
    const Section lower = std::clamp<Section>(section - reach, 1, sections);
    const Section upper = std::clamp<Section>(section + reach + 1, lower, sections);
    const auto begin = model_.load.begin();
    return lower == upper
               ? sections
               : static_cast<Section>(std::min_element(begin + lower, begin + upper) - begin);
  }

  // Packs the sections before `end` again, no higher than the rest.
  void close(Section end, double seconds) {
    std::vector<Part> parts;
    std::vector<Offset> fixed;
    for (const Part& part : all_parts()) {
      if (part.span.lower < end) {
        const bool stays = part.comes_round || part.span.upper > end;
        parts.push_back({part.item, {part.span.lower, std::min(part.span.upper, end)}, false});
        fixed.push_back(stays ? open_offsets_[static_cast<std::size_t>(part.item)] : kNotFixed);
      }
    }
    const Model arc(problem_of(parts, &fixed));
    if (fixed_overlap(arc)) {
      return;  // what comes round is still alive at the arc's end
    }
    const Found found = search_(
        arc, budget_.part(std::max(budget_.target(), open_height_), seconds, budget_.seed()));
    if (!found.offsets) {
      return;
    }
    Offsets offsets = open_offsets_;
    for (std::size_t k = 0; k < arc.items.size(); ++k) {
      offsets[static_cast<std::size_t>(parts[arc.source[k]].item)] = (*found.offsets)[k];
    }
    if (const Bytes height = height_of(model_, offsets); height < height_) {
      height_ = height;
      best_ = std::move(offsets);
    }
  }

  const Model& model_;
  const Budget& budget_;
  Found (*search_)(const Model&, const Budget&);
  Model open_;
  Offsets open_offsets_;
  Bytes open_height_ = std::numeric_limits<Bytes>::max();
  std::optional<Offsets> best_;
  Bytes height_ = std::numeric_limits<Bytes>::max();
};

}  // namespace

bool is_wrapped(const Model& model) {
  const auto end = static_cast<Section>(model.load.size());
  return model.has_gaps && !model.has_fixed &&
         std::all_of(model.items.begin(), model.items.end(), [&](const Item& item) {
           const auto parts = model.parts_of(item);
           return parts.size() == 1 ||
                  (parts.size() == 2 && parts[0].lower == 0 && parts[1].upper == end);
         });
}

Found plan_wrapped(const Model& model, const Budget& budget,
                   Found (*search)(const Model& model, const Budget& budget)) {
  return Period(model, budget, search).run();
}

}  // namespace dsa
