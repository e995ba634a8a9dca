// Items that are joined to larger rectangles: a binary forest, and its roots by the sections where
// they begin and end. Cold. For models without gaps, alignments and fixed offsets.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/strategy.h"

namespace dsa {

class Blocks {
 public:
  using Index = std::int32_t;
  static constexpr Index kNone = -1;
  enum Side : std::uint8_t { kBegin, kEnd };

  struct Block {
    Bytes size;
    Span span;
    Index first = kNone;                         // the lower or earlier part; kNone for an item
    Index second = kNone;                        // what is on top of it, or follows it
    float score = 0;                             // how unlikely it was that these fit by chance
    bool root = true;                            // it is part of no other
    std::array<Index, 2> next = {kNone, kNone};  // of the roots that begin, or end, where it does
    std::array<Index, 2> previous = {kNone, kNone};
  };

  // Every item is a block, of the same index.
  explicit Blocks(const Model& model);

  const Block& operator[](Index index) const { return blocks_[static_cast<std::size_t>(index)]; }
  Index end() const { return static_cast<Index>(blocks_.size()); }
  std::size_t roots() const { return roots_; }
  Section sections() const { return static_cast<Section>(heads_[kBegin].size()) - 1; }

  // The roots that begin at the start of a section, or end there; sections() is the end of time.
  std::uint32_t count(Side side, Section section) const {
    return counts_[side][static_cast<std::size_t>(section)];
  }
  Index head(Side side, Section section) const {
    return heads_[side][static_cast<std::size_t>(section)];
  }

  bool twins(Index a, Index b) const {
    const Block& x = (*this)[a];
    const Block& y = (*this)[b];
    return x.span.lower == y.span.lower && x.span.upper == y.span.upper;
  }
  // Do they make a rectangle, b on top of a or after it?
  bool fit(Index a, Index b) const {
    return twins(a, b) ||
           ((*this)[a].span.upper == (*this)[b].span.lower && (*this)[a].size == (*this)[b].size);
  }

  Index join(Index a, Index b, float score);  // two roots that fit
  void part(Index index);                     // makes roots of a root's two parts
  void rejoin(Index index);                   // and one of them again
  void drop(Index from);                      // forgets blocks from here on, which are no roots

  // Sets the offsets of all items of the block.
  void place(Index index, Offset offset, Offsets& offsets) const;

 private:
  Block& at(Index index) { return blocks_[static_cast<std::size_t>(index)]; }
  void enter(Index index);  // among the roots
  void leave(Index index);

  std::vector<Block> blocks_;
  std::array<std::vector<Index>, 2> heads_;  // by section
  std::array<std::vector<std::uint32_t>, 2> counts_;
  std::size_t roots_ = 0;
};

}  // namespace dsa
