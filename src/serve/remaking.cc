#include "src/serve/remaking.h"

#include <algorithm>

#include "src/base/os.h"

namespace memo {

Remaking::Remaking(const Residence& residence, NodeSet nodes, std::uint64_t height)
    : residence_(residence),
      nodes_(nodes),
      granules_(granules_in(height)),
      left_(granules_),
      done_(static_cast<std::uint8_t*>(os::map(granules_.count() + 1))) {
  left_ = done_ == nullptr ? Granules{0} : left_;
}

Remaking::~Remaking() {
  if (done_ != nullptr) {
    os::unmap(done_, granules_.count() + 1);
  }
}

bool Remaking::take(const Slab& slab, std::uint64_t offset) {
  run_count_ = 0;
  const Granules top = std::min(granules_, granules_in(offset + kStripe));
  if (slab.height() < bytes_of(granules_)) {
    return false;
  }
  Space& space = slab.space();
  for (PageMap::Run free = space.runs.next_free(granules_in(offset), top); free.found();
       free = space.runs.next_free(free.end(), top)) {
    for (Granules first = free.first; first < free.end();) {
      std::uint8_t* const here = done_ + first.count();
      std::uint8_t* const next = std::find(here, done_ + free.end().count(), *here == 0 ? 1 : 0);
      const Granules count{static_cast<std::uint64_t>(next - here)};
      char* const start = space.address(first);
      const std::uint64_t bytes = bytes_of(count);
      if (*here == 0) {
        const bool wanted = !os::is_bare(start, bytes);
        space.give_back(first, count);
        std::fill(here, next, std::uint8_t{1});
        left_ -= count;
        if (wanted && run_count_ < kMaxRuns) {
          runs_[run_count_++] = {start, bytes};
        }
      }
      first += count;
    }
  }
  return true;
}

void Remaking::make_ready() {
  for (std::uint32_t i = 0; i < run_count_ && !refused_; ++i) {
    refused_ = !residence_.make_ready(runs_[i].start, runs_[i].bytes, nodes_);
    made_ += refused_ ? 0 : runs_[i].bytes;
  }
  run_count_ = 0;
}

}  // namespace memo
