// Is there a packing within a capacity? Depth-first search over packings in which no item can move
// down, each of them reached once. Cold.
//
// The skyline's local minima are where something must be decided: either an item comes to lie at
// the bottom of one, or it is raised and what lay below is waste. The search picks, among the
// sections of all local minima, the one with the fewest possibilities (items that could cover it,
// or waste if it can afford any), tries the items, and then forbids them there. Where no item
// crosses any more, time falls apart into ranges that are solved one by one: a failure in one never
// changes the choices in another.
//
// Parts of an item with gaps, and fixed items, are pinned above the skyline until it reaches them
// (partial_packing.h). Then ranges depend on each other, and a section may be given up too far for
// an item whose other part has not been placed yet: packings are missed, and nothing is ever proved
// impossible but at the start.
//
// Failures teach: the items left over where a state died gain weight and are tried earlier next
// time, and the section is decided earlier, so restarts differ. Source: Joslin & Clements, "Squeaky
// Wheel Optimization", 1999, and Boussemart et al., "Boosting Systematic Search by Weighting
// Constraints", 2004, for the weights; Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning", 2023, for the canonical placements and the per-section
// bounds that this goes on from.
#pragma once

#include <random>

#include "planner/partial_packing.h"
#include "planner/strategy.h"

namespace dsa {

// How much each property of an item counts when candidates are ordered.
struct SearchWeights {
  double lifetime = 0;  // per e-fold of sections
  double size = 0;      // per e-fold of bytes
  double load = 0;      // of the fullest section in its lifetime, as a share of the capacity
  double edge = 0;      // for each end of the segment that it meets
  double flush = 0;     // and for reaching the neighbour's height there
  double noise = 0;     // most that is drawn at random
};

class TreeSearch {
 public:
  enum class Result { kSolved, kImpossible, kStopped };

  TreeSearch(const Model& model, Bytes capacity, const SearchWeights& weights, std::uint64_t seed);

  // Restarts the search with the weights that it has learned, and takes at most `steps` steps.
  Result run(std::uint64_t steps, const Budget& budget);

  // For another capacity from the next run on.
  void aim(Bytes capacity) { packing_.aim(capacity); }

  Offsets offsets() const { return packing_.offsets(); }  // after kSolved

 private:
  static constexpr std::int32_t kEnd = -1;

  // A range of sections still to be solved. The list of them is persistent: frames keep its heads.
  struct Range {
    Span span;
    std::int32_t next = kEnd;
    std::size_t depth = 0;  // frames that existed when its time fell apart
  };
  struct Frame {
    std::int32_t head;        // of the ranges, before the choice
    std::size_t ranges;       // size of ranges_ then
    std::size_t mark;         // of the packing
    std::size_t first, last;  // its candidates in choices_
    std::size_t next;         // the candidate to try next
    Offset height;            // of the segment
    Span segment;
  };
  struct Choice {
    double score;
    std::int32_t entry;
  };
  // What is most urgent in a range.
  struct Focus {
    double cost = 0;  // possibilities, fewer the more often the section was to blame
    Section section = -1;
    Span segment = {};
    Offset height = 0;
  };
  enum class Look { kDone, kDead, kChanged, kFocus };

  Look look(const Span& range, Focus& focus);
  Look look_at_minimum(const Span& range, const Span& segment, Focus& focus);
  bool place_pinned(const Span& segment, Offset height);
  bool examine();  // infers in the first range and makes a frame if a choice is left; false: dead
  void choose(const Span& range, const Focus& focus);
  bool backtrack();  // goes on with the next choice; false: there is none left
  bool advance();    // tries the top frame's next candidate; false: that is dead
  void split(const Span& range, std::int32_t rest);
  void blame();

  PartialPacking packing_;
  SearchWeights weights_;
  std::vector<double> weight_;   // by entry
  std::vector<double> trouble_;  // by section: 1 and more, the more often it was to blame
  std::vector<Range> ranges_;
  std::int32_t head_ = kEnd;
  std::vector<Frame> frames_;
  std::vector<Choice> choices_;
  std::vector<int> cover_;
  std::vector<Span> parts_;
};

}  // namespace dsa
