// The skyline pass: fill the lowest place first. Cold.
//
// The skyline is the upper edge of what is placed, a list of segments [lower, upper) of time at one
// height. Again and again, the lowest segment takes the unplaced item of the best rank whose
// lifetime fits in it; if none fits, the segment is raised to its lower neighbour and what lay
// below is waste.
//
//   height ^    +---+                        The lowest segment is the one between the two steps;
//   if
//          |----+   |      +-----            no unplaced item lives inside it, it is raised to the
//          |        |______|                 right step's height.
//          +------------------------> time
//
// An item with gaps fits when all its parts lie on segments of the lowest height.
// Source: Burke, Kendall & Whitwell, "A New Placement Heuristic for the Orthogonal Stock-Cutting
// Problem", 2004, with the time coordinate of each rectangle fixed.
#pragma once

#include <optional>
#include <vector>

#include "planner/fit_tree.h"
#include "planner/orders.h"
#include "planner/strategy.h"

namespace dsa {

class Skyline {
 public:
  explicit Skyline(const Model& model);

  // One pass, items of better rank first. `raised(span, from, to)` hears of waste and returns false
  // to give up. Offsets disregard fixed ones. None if given up or out of time.
  template <typename Raised>
  std::optional<Offsets> pass(const std::vector<Rank>& ranks, const Budget& budget, Raised raised) {
    start(ranks);
    for (std::size_t left = model_.items.size(); left > 0;) {
      const std::uint32_t index = lowest();
      const Segment segment = segments_[index];
      const ItemId id = tree_.best_inside(segment.span, [&](ItemId item) {
        return fits(model_.items[static_cast<std::size_t>(item)], segment.height);
      });
      if (id >= 0) {
        put(index, id);
        if (--left % 1024 == 0 && budget.expired()) {
          return std::nullopt;
        }
      } else if (const Offset to = raise(index); !raised(segment.span, segment.height, to)) {
        return std::nullopt;
      }
    }
    return offsets_;
  }

  std::optional<Offsets> pass(const std::vector<Rank>& ranks, const Budget& budget) {
    return pass(ranks, budget, [](const Span&, Offset, Offset) { return true; });
  }

  bool placed(ItemId item) const { return offsets_[static_cast<std::size_t>(item)] >= 0; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Segment {
    Span span;
    Offset height = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
  };
  struct Low {  // heap entry; stale unless the segment still has this height and lower end
    Offset height;
    Section lower;
    Section upper;
    std::uint32_t index;
    bool operator<(const Low& other) const {
      return height != other.height ? height > other.height : lower > other.lower;
    }
  };

  void start(const std::vector<Rank>& ranks);
  std::uint32_t lowest();
  bool fits(const Item& item, Offset height) const;
  void put(std::uint32_t index, ItemId id);
  void put_part(std::uint32_t index, const Span& part, Offset height);
  Offset raise(std::uint32_t index);
  std::uint32_t segment_at(Section section) const;
  std::uint32_t add(const Segment& segment);
  void announce(std::uint32_t index);
  void set_height(std::uint32_t index, Offset height);
  void absorb_next(std::uint32_t index);

  const Model& model_;
  FitTree tree_;
  Offsets offsets_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> free_;
  std::vector<Low> heap_;
  // Where a segment begins, found backwards from any section; kept only for models with gaps.
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint32_t> at_begin_;
};

// ranks[order[i]] = i.
std::vector<Rank> ranks_of(const Order& order);

// The best of the skyline passes by area, lifetime, size and breadth; stops at the target.
Found skyline(const Model& model, const Budget& budget);

// A skyline pass that takes the longest lived item that fits.
// Source: Sekiyama, Imamichi, Imai & Raymond, "Profile-guided memory optimization for deep neural
// networks", 2018.
Found strip_packing_best_fit(const Model& model, const Budget& budget);

}  // namespace dsa
