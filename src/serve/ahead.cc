#include "src/serve/ahead.h"

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/resident.h"
#include "src/serve/written.h"

namespace memo {

void Ahead::keep(PageMap::Run& run, Granules first, Granules end, AheadWindow& window) const {
  if (forks_ == window.forks()) {
    window.settle(bytes_of(run.count - (end - first)));
  }
  run = {first, end - first};
}

void Ahead::forget(AheadWindow& window) {
  for (PageMap::Run& run : runs_) {
    keep(run, run.first, run.first, window);
  }
  forks_ = window.forks();
}

PageMap::Run Ahead::take(const Space& space, AheadWindow& window, std::uint64_t alive,
                         Granules from, Granules end, Granules top) {
  const Granules first = round_up(from, kHugePage);
  if (first >= end) {
    return {};
  }
  if (forks_ != window.forks()) {
    forget(window);
  }
  for (PageMap::Run& run : runs_) {
    if (run.first < end && first < run.end()) {
      keep(run, run.first, std::max(run.first, first), window);  // the rest has no memory any more
    }
  }
  if (looks_.waits()) {
    return {};
  }
  if (look(space, window, top) == 0) {
    looks_.restart();
  } else {
    looks_.refused(tuning::kMaxWait);
  }
  const auto none = std::find_if(runs_.begin(), runs_.end(),
                                 [](const PageMap::Run& run) { return !run.found(); });
  // Before `first` is the block's part of the last huge page of the block before: it is ahead, and
  // takes no room from the rest, so that less than a huge page is ahead beyond the window.
  const Granules room = granules_in(window.room(alive)) + (first - from);
  const Granules to = std::min(end, round_down(first + room, kHugePage));
  if (none == runs_.end() || to <= first) {
    return {};
  }
  window.take(bytes_of(to - first));
  return *none = {first, to - first};
}

std::uint64_t Ahead::look(const Space& space, AheadWindow& window, Granules top) {
  std::uint64_t sum = 0;
  for (PageMap::Run& run : runs_) {
    if (!run.found()) {
      continue;
    }
    const bool waits = run.first >= top;
    const Granules end = waits ? run.end() : std::min(run.end(), top);
    const std::uint64_t bytes = bytes_of(end - run.first);
    std::uint64_t there = 0;
    bool written = true;  // what is there
    os::Residents memory(space.address(run.first), bytes);
    for (os::Residents::Stretch stretch; memory.next(stretch);) {
      there += stretch.there ? stretch.bytes : 0;
      written = written &&
                (!stretch.there || os::is_written(stretch.start, stretch.bytes, may_lack(bytes)));
    }
    const bool used = space.pages.states().all_used(run.first, end - run.first);
    if (written && (there == bytes || !used)) {
      window.widen(there);
      keep(run, end, run.end(), window);
      continue;
    }
    if (waits) {
      continue;
    }
    if (!used) {
      window.halve();
    }
    sum += bytes;
  }
  return sum;
}

}  // namespace memo
