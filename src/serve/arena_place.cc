// Which of the pool's free places a block gets.
#include <algorithm>
#include <optional>

#include "src/base/units.h"
#include "src/serve/arena.h"

namespace memo {

// Where there is memory; where there is some that will be `written`, and hardly any that would only
// be covered; where nothing lies; where nothing ever lay.
FreeIndex::Place Arena::find(Granules count, Granules written, Granules step, From from) const {
  FreeIndex::Place place = free_.fit(FreeIndex::Kind::kDirty, count, step);
  if (place.found() || from == From::kMemory) {
    return place;
  }
  place = free_.overlap(FreeIndex::Kind::kDirty, count, written, step, top_);
  if (!place.found()) {
    place = free_.fit(FreeIndex::Kind::kClean, count, step);
  }
  if (!place.found()) {
    place = free_.overlap(FreeIndex::Kind::kClean, count, written, step, top_);
  }
  if (!place.found()) {
    place = free_.below(top_);
    place.start = round_up(place.start, step);
  }
  return place;
}

// The spare block's, if the new one fills most of it: what is left goes back. Else all of it does.
std::optional<FreeIndex::Place> Arena::place_in_spare(Granules count, Granules step) {
  const PageMap::Run spare = spare_.take();
  const bool suits = count <= spare.count && spare.count <= 2 * count &&
                     spare.first % step == Granules{0} &&
                     space_->pages.look(spare.first, count).granted;  // not kept out
  const Granules kept = suits ? count : Granules{0};
  if (kept < spare.count) {
    give_back({spare.first + kept, spare.count - kept});
  }
  return suits ? std::optional(FreeIndex::Place{spare.first}) : std::nullopt;
}

}  // namespace memo
