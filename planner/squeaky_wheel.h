// Skyline passes that learn from each other. Cold.
//
// When a pass raises a segment so far that the section's remaining buffers cannot fit below the
// target any more, the buffers that cross it and were left over should have been placed earlier:
// their priority rises, and the next pass takes them earlier. The squeaky wheel gets the grease.
// Source: Joslin & Clements, "Squeaky Wheel Optimization", 1999.
#pragma once

#include <limits>
#include <random>

#include "planner/section_items.h"
#include "planner/skyline.h"
#include "planner/strategy.h"

namespace dsa {

class SqueakyWheel {
 public:
  // The first pass takes the items in order of size times lifetime to this power.
  SqueakyWheel(const Model& model, std::uint64_t seed, double power = 1);

  // Passes until the target is reached, nothing is left to learn, the budget is spent or so many
  // are done. Goes on where the last call ended.
  void run(const Budget& budget, std::size_t passes = std::numeric_limits<std::size_t>::max());
  bool exhausted() const { return exhausted_; }  // nothing is left to learn

  const std::optional<Offsets>& best() const { return best_; }
  Bytes best_height() const { return height_; }

 private:
  void blame(Section section);

  const Model& model_;
  Skyline sky_;
  SectionItems alive_;
  std::mt19937_64 random_;
  std::vector<double> priority_;
  Order order_;
  std::vector<std::uint8_t> blamed_;
  std::size_t work_ = 0;  // items that the blame of this pass has looked at
  std::optional<Offsets> best_;
  Bytes height_ = 0;
  bool exhausted_ = false;
  bool tight_ = false;  // of the last pass; they take turns, since neither kind wins everywhere
};

}  // namespace dsa
