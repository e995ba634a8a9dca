// A packing under construction, from the bottom up, that can be taken back step by step. Cold.
//
// Each section has a height: below it, everything is decided. What is decided is either covered by
// a placed item or given up as waste. A state is *dead* when some section's remaining items cannot
// fit between the height and the capacity any more.
//
// An item with gaps is an entry for each of its parts. Where one is placed the others are pinned, as fixed items are
// from the start; a pinned entry is placed when the skyline reaches it (pins.h).
#pragma once

#include <cstdint>
#include <vector>

#include "planner/model.h"
#include "planner/pins.h"

namespace dsa {

class PartialPacking {
 public:
  static constexpr Offset kWall = INT64_MAX;  // the height of a section that nothing needs any more

  // Parts of items are numbered again, by birth; equal ones are neighbours.
  struct Entry {
    Section lower = 0;
    Section upper = 0;
    Bytes size = 0;
    Bytes alignment = 1;
    ItemId item = 0;        // in the model
    std::int32_t twin = 0;  // the first entry of the same lifetime, size and alignment
    std::int32_t next = 0;  // part of the same item, in a ring; itself where there is no other
  };

  PartialPacking(const Model& model, Bytes capacity);

  // False if the state is dead; undo() takes it back all the same. blamed() tells the section.
  bool place(std::int32_t entry, Offset offset);
  bool raise(const Span& span, Offset to);
  // Nothing equal to this entry may be placed on a support of this height any more.
  void forbid(std::int32_t entry, Offset height);
  // Looks closer at all that changed since the last time: in each section, the remaining items,
  // taken in the order in which they can start, must end below the capacity.
  bool holds();

  // The lowest offset above the skyline at which something is pinned there, or Pins::kNone.
  Offset ceiling(const Span& span) const { return pins_.ceiling(span); }
  // The entry that is pinned there, or -1.
  std::int32_t pinned_at(Section s, Offset offset) const { return pins_.waiting_at(s, offset); }
  // Do items have parts that only pins hold together? What is decided in one range of time may then come to matter in
  // another.
  bool linked() const { return linked_; }

  // Takes everything back, for another capacity.
  void aim(Bytes capacity) {
    undo(0);
    capacity_ = capacity;
  }

  std::size_t mark() const { return trail_.size(); }
  void undo(std::size_t mark);

  // May the entry be placed next at the bottom of a segment that ends at `upper` and has this
  // height?
  bool candidate(std::int32_t entry, Section upper, Offset height) const;

  Section sections() const { return static_cast<Section>(cells_.size()); }
  std::int32_t first_born(Section s) const { return first_born_[static_cast<std::size_t>(s)]; }
  const Entry& entry(std::int32_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  std::int32_t entries() const { return static_cast<std::int32_t>(entries_.size()); }
  Offset height(Section s) const { return cells_[static_cast<std::size_t>(s)].height; }
  Bytes remaining(Section s) const { return cells_[static_cast<std::size_t>(s)].remaining; }
  // Could section s be given up to this height?
  bool affords(Section s, Offset height) const { return height <= capacity_ - remaining(s); }
  // Does an unplaced item live on both sides of the boundary before section s?
  bool crossed(Section s) const { return crossing_[static_cast<std::size_t>(s)] != 0; }
  Section blamed() const { return blamed_; }

  template <typename Visit>
  void for_each_unplaced(Section s, Visit visit) const {
    const auto index = static_cast<std::size_t>(s);
    for (std::uint32_t k = first_alive_[index]; k < first_alive_[index + 1]; ++k) {
      if (offsets_[static_cast<std::size_t>(alive_[k])] < 0) {
        visit(alive_[k]);
      }
    }
  }

  std::vector<Offset> offsets() const;  // by item of the model

 private:
  struct Cell {
    Offset height = 0;
    Offset top = 0;  // of the highest placed item; below the height where there is waste
    Bytes remaining = 0;
    std::int32_t below = -1;  // the entry on top
  };
  enum class Kind : std::uint8_t { kCells, kPlaced, kForbidden, kFloor, kPinned, kReached };
  struct Change {
    Kind kind;
    std::int32_t entry = -1;
    Span span = {};
    Offset old = 0;  // of a floor or a forbidden height
  };

  void index(const Model& model);
  void tie_parts(const Model& model);
  bool pin_others(std::int32_t entry, Offset offset);
  void save(const Span& span);
  void lift_floors(const Span& span, Offset height);
  void touch(Section s);
  bool fail(Section s) {
    blamed_ = s;
    return false;
  }

  Bytes capacity_;
  std::size_t items_;  // of the model
  std::vector<Entry> entries_;
  std::vector<std::int32_t> first_born_;    // by section
  std::vector<std::uint32_t> first_alive_;  // by section: its entries in alive_
  std::vector<std::int32_t> alive_;
  std::vector<Cell> cells_;
  std::vector<std::int32_t> crossing_;  // by boundary: unplaced entries across it
  std::vector<Offset> offsets_;         // by entry; -1 if unplaced
  std::vector<Offset> floors_;          // by entry: it cannot lie lower
  std::vector<Offset> forbidden_;       // by twin: no support of this height; -1 for none
  std::vector<Change> trail_;
  std::vector<Cell> saved_;
  std::vector<Section> touched_;  // sections to look at in holds()
  std::vector<std::uint8_t> is_touched_;
  std::vector<std::pair<Offset, Bytes>> starts_;
  Section blamed_ = 0;
  bool linked_;
  Pins pins_;
};

}  // namespace dsa
