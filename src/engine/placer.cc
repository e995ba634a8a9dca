// See placer.h. Hot.
#include "src/engine/placer.h"

#include "src/serve/slab.h"

namespace memo {

void Placer::start(const Schedule* schedule, const ContextIndex* index, Cursor at) {
  *this = Placer();
  change(schedule, index, at);
}

void Placer::change(const Schedule* schedule, const ContextIndex* index, Cursor at) {
  schedule_ = schedule;
  index_ = index;
  cursor_ = at;
}

Placer::Placement Placer::next(std::uint64_t size, std::uint64_t alignment, PageMap& pages) {
  recent_.add(size);
  Placement placement;
  const Step* step = cursor_.advance(*schedule_, *index_, recent_);
  health_.note(step != nullptr, size, schedule_->count);
  if (step == nullptr) {
    placement.miss = health_.misses_in_row() <= 1 ? Miss::kSize : Miss::kOrder;
    return placement;
  }
  placement.wrapped = cursor_.position() == 0;
  if (step->offset == kUnplanned) {
    placement.miss = Miss::kLeftOut;
    return placement;
  }
  const SlabPlace place = claim_place(pages, step->offset, size, alignment);
  switch (place.answer) {
    case SlabPlace::Answer::kGranted:
      placement.miss = Miss::kNone;
      break;
    case SlabPlace::Answer::kMisaligned:
      placement.miss = Miss::kAlignment;
      break;
    case SlabPlace::Answer::kOccupied:
      placement.miss = Miss::kOccupied;
      break;
  }
  placement.offset = step->offset;
  placement.dirty = place.dirty;
  return placement;
}

}  // namespace memo
