// Ceilings of sections, kept as pins come and go. Cold.
#include "planner/pins.h"

#include <algorithm>

namespace dsa {

Offset Pins::ceiling(const Span& span) const {
  return ceilings_.empty()
             ? kNone
             : *std::min_element(ceilings_.begin() + span.lower, ceilings_.begin() + span.upper);
}

std::int32_t Pins::waiting_at(Section section, Offset offset) const {
  if (ceilings_.empty() || ceilings_[static_cast<std::size_t>(section)] != offset) {
    return -1;
  }
  for (const std::int32_t part : waiting_[static_cast<std::size_t>(section)]) {
    const auto index = static_cast<std::size_t>(part);
    if (reached_[index] == 0 && pins_[index] == offset) {
      return part;
    }
  }
  return -1;
}

bool Pins::add(std::int32_t part, Offset offset) {
  const auto index = static_cast<std::size_t>(part);
  const Part& own = parts_[index];
  for (Section s = own.span.lower; s < own.span.upper; ++s) {
    for (const std::int32_t other : waiting_[static_cast<std::size_t>(s)]) {
      const auto its = static_cast<std::size_t>(other);
      if (reached_[its] == 0 && pins_[its] < offset + own.size &&
          offset < pins_[its] + parts_[its].size) {
        return false;
      }
    }
  }
  pins_[index] = offset;
  for (Section s = own.span.lower; s < own.span.upper; ++s) {
    waiting_[static_cast<std::size_t>(s)].push_back(part);
  }
  lower_ceilings(part);
  return true;
}

void Pins::undo_add(std::int32_t part) {
  const Span& span = parts_[static_cast<std::size_t>(part)].span;
  for (Section s = span.lower; s < span.upper; ++s) {
    waiting_[static_cast<std::size_t>(s)].pop_back();
  }
  pins_[static_cast<std::size_t>(part)] = kNone;
  find_ceilings(span);
}

void Pins::reach(std::int32_t part) {
  reached_[static_cast<std::size_t>(part)] = 1;
  find_ceilings(parts_[static_cast<std::size_t>(part)].span);
}

void Pins::undo_reach(std::int32_t part) {
  reached_[static_cast<std::size_t>(part)] = 0;
  lower_ceilings(part);
}

void Pins::lower_ceilings(std::int32_t part) {
  const Span& span = parts_[static_cast<std::size_t>(part)].span;
  for (Section s = span.lower; s < span.upper; ++s) {
    Offset& ceiling = ceilings_[static_cast<std::size_t>(s)];
    ceiling = std::min(ceiling, pins_[static_cast<std::size_t>(part)]);
  }
}

void Pins::find_ceilings(const Span& span) {
  for (Section s = span.lower; s < span.upper; ++s) {
    Offset& ceiling = ceilings_[static_cast<std::size_t>(s)];
    ceiling = kNone;
    for (const std::int32_t part : waiting_[static_cast<std::size_t>(s)]) {
      const auto index = static_cast<std::size_t>(part);
      ceiling = reached_[index] != 0 ? ceiling : std::min(ceiling, pins_[index]);
    }
  }
}

}  // namespace dsa
