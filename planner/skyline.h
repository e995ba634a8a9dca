// The skyline pass: fill the lowest place first. Cold.
//
// The skyline is the upper edge of what is placed, a list of segments [lower, upper) of time at one
// height. Again and again, a segment lower than its neighbours takes the unplaced item of the best
// rank whose lifetime fits in it; if none fits, the segment is raised to its lower neighbour and
// what lay below is waste. What a segment takes depends on nothing outside it, so the order of the
// segments changes nothing: the nearest is next, whose data the processor has at hand. Only gaps
// tie segments together; models with gaps take the lowest of all.
//
//   height ^    +---+
//          |----+   |      +-----
//          |        |______|
//          +------------------------> time
//
// Here the lowest segment is the one between the two steps. If no unplaced item lives inside it, it
// is raised to the height of the step on its right.
//
// An item with gaps fits when all its parts lie on segments of the lowest height. A fixed item is
// an obstacle: nothing is placed, and no segment raised, beyond its bottom, and the segment that
// comes up to it rises to its top. Source: Burke, Kendall & Whitwell, "A New Placement Heuristic
// for the Orthogonal Stock-Cutting Problem", 2004, with the time coordinate of each rectangle
// fixed.
#pragma once

#include <optional>
#include <vector>

#include "planner/demand.h"
#include "planner/fit_tree.h"
#include "planner/obstacles.h"
#include "planner/orders.h"
#include "planner/strategy.h"

namespace dsa {

class Skyline {
 public:
  explicit Skyline(const Model& model);

  // One pass, items of better rank first. None if out of time. Requires fixed items that do not
  // overlap.
  std::optional<Offsets> pass(const std::vector<Rank>& ranks, const Budget& budget);

  // The same. `raised(most)` hears of waste, and of the greatest demand where it fell. If `tight`,
  // items that live in the segment's tightest section go first, the one where load and waste are
  // the most, so that waste falls where there is room for it: twice the work for about half the
  // waste.
  template <typename Raised>
  std::optional<Offsets> pass(const std::vector<Rank>& ranks, const Budget& budget, bool tight,
                              Raised raised) {
    demand_.reset();
    for (std::size_t left = start(ranks); left > 0;) {
      const std::uint32_t index = minimum();
      const Segment segment = segments_[index];
      if (pass_obstacle(index)) {
        continue;
      }
      const auto admits = [&](ItemId item) {
        return fits(model_.items[static_cast<std::size_t>(item)], segment.height);
      };
      ItemId id = -1;
      if (tight) {
        const Section tightest = demand_.most(segment.span).section;
        id = tree_.best_covering(tightest, segment.span, admits);
      }
      id = id >= 0 ? id : tree_.best_inside(segment.span, admits);
      if (id < 0) {
        demand_.waste(segment.span, raise(index) - segment.height);
        raised(demand_.most(segment.span));
        continue;
      }
      put(index, id);
      if (--left % 1024 == 0 && budget.expired()) {
        return std::nullopt;
      }
    }
    return offsets_;
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

  std::size_t start(const std::vector<Rank>& ranks);  // returns how many items are to be placed
  std::uint32_t minimum();
  std::uint32_t lowest();
  bool pass_obstacle(std::uint32_t index);  // if the segment has come up to one
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
  Demand demand_;
  Obstacles obstacles_;
  Offsets offsets_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> free_;
  std::uint32_t here_ = 0;  // the segment changed last
  std::vector<Low> heap_;   // kept only for models with gaps
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

// A tight pass that takes the longest lived item, of nearly equal ones the largest: the best single
// pass where very many items of like size are alive at a time.
Found long_lived_first(const Model& model, const Budget& budget);

}  // namespace dsa
