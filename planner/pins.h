// Where parts of items must lie that the skyline has not reached yet: all of a fixed item, and what
// follows a gap in an item of which another part is placed. Cold; for TreeSearch.
//
// A pinned part lies above the skyline until it is reached, and what is placed below it must end at
// its bottom: the lowest pin of a section is that section's ceiling. Pins are taken back in the
// opposite order.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/model.h"

namespace dsa {

class Pins {
 public:
  static constexpr Offset kNone = std::numeric_limits<Offset>::max();

  struct Part {
    Span span;
    Bytes size = 0;
  };

  // Parts are numbered from 0; without any, nothing can be pinned and nothing is kept.
  Pins(std::vector<Part> parts, std::size_t sections)
      : parts_(std::move(parts)),
        pins_(parts_.size(), kNone),
        ceilings_(parts_.empty() ? 0 : sections, kNone),
        waiting_(parts_.empty() ? 0 : sections) {}

  Offset pin(std::int32_t part) const {
    return parts_.empty() ? kNone : pins_[static_cast<std::size_t>(part)];
  }
  // The lowest pin that is not reached, over all of the span.
  Offset ceiling(const Span& span) const;
  // The part that waits there, or -1.
  std::int32_t waiting_at(Section section, Offset offset) const;

  // False, with nothing changed, if another pinned part that is not reached lies there.
  bool add(std::int32_t part, Offset offset);
  void undo_add(std::int32_t part);
  // The skyline is at the part's bottom, and it is placed: no ceiling any more.
  void reach(std::int32_t part);
  void undo_reach(std::int32_t part);

 private:
  void lower_ceilings(std::int32_t part);
  void find_ceilings(const Span& span);

  std::vector<Part> parts_;
  std::vector<Offset> pins_;
  std::vector<Offset> ceilings_;  // by section
  std::vector<std::vector<std::int32_t>>
      waiting_;  // by section, in the order in which they were pinned
  std::vector<std::uint8_t> reached_ = std::vector<std::uint8_t>(parts_.size(), 0);
};

}  // namespace dsa
