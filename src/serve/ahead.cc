#include "src/serve/ahead.h"

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/serve/written.h"

namespace memo {
namespace {

constexpr Granules kHugePage = granules_in(os::kHugePage);

}  // namespace

PageMap::Run Ahead::take(const Space& space, AheadWindow& window, std::uint64_t alive,
                         Granules from, Granules end) {
  const Granules first = round_up(from, kHugePage);
  if (first >= end) {
    return {};
  }
  for (PageMap::Run& run : runs_) {
    if (run.first < end && first < run.end()) {
      run = {};  // it has no memory any more
    }
  }
  const std::uint64_t ahead = look(space, window);
  const std::uint64_t most = window.size(alive);
  const Granules room = granules_in(most - std::min(most, ahead));
  const auto none = std::find_if(runs_.begin(), runs_.end(),
                                 [](const PageMap::Run& run) { return !run.found(); });
  const Granules to = std::min(end, round_down(first + room, kHugePage));
  if (none == runs_.end() || to <= first) {
    return {};
  }
  return *none = {first, to - first};
}

std::uint64_t Ahead::look(const Space& space, AheadWindow& window) {
  std::uint64_t sum = 0;
  for (PageMap::Run& run : runs_) {
    if (!run.found()) {
      continue;
    }
    const void* const start = space.address(run.first);
    const std::uint64_t bytes = bytes_of(run.count);
    const std::uint64_t there = os::resident_bytes(start, bytes);
    const bool used = space.pages.states().all_used(run.first, run.count);
    const bool written = there == bytes && os::is_written(start, bytes, may_lack(bytes));
    if (written) {
      window.widen(bytes);
    } else if (!used && there != 0) {
      window.halve();
    }
    if (written || (!used && there == 0)) {
      run = {};
    } else {
      sum += bytes;
    }
  }
  return sum;
}

}  // namespace memo
