// How unlikely it is that two blocks fit each other by chance. Cold.
//
// The greater the sizes or the longer the lives that agree, and the fewer blocks begin and end
// there, the less likely; and less likely still if the block that the two make fits a third. The
// unit is arbitrary: scores are only compared.
#pragma once

#include "planner/blocks.h"

namespace dsa {

class FitScore {
 public:
  // Requires blocks that stay where they are, and as yet only items.
  explicit FitScore(const Blocks& blocks);

  // Of two roots that fit.
  float operator()(Blocks::Index a, Blocks::Index b) const;

 private:
  using Index = Blocks::Index;

  float of_twins(const Span& span, std::uint32_t begins, std::uint32_t ends) const;
  float of_size(Bytes size, Section at) const;
  float of_third(Index a, Index b, const Span& span, Bytes size) const;

  const Blocks& blocks_;
  Bytes grain_ = 0;  // all sizes are multiples of it
};

}  // namespace dsa
