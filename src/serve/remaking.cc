#include "src/serve/remaking.h"

#include <algorithm>

#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// At least half of it has memory.
bool mostly_resident(const char* start, std::uint64_t bytes) {
  std::uint64_t resident = 0;
  for (std::uint64_t at = 0; at < bytes; at += tuning::kMaxLooked) {
    resident += os::resident_bytes(start + at, std::min(bytes - at, tuning::kMaxLooked));
  }
  return 2 * resident >= bytes;
}

}  // namespace

Remaking::Remaking(const Residence& residence, NodeSet nodes, std::uint64_t height)
    : residence_(residence),
      nodes_(nodes),
      granules_(height / kGranule),
      left_(granules_),
      done_(static_cast<std::uint8_t*>(os::map(granules_ + 1))) {
  left_ = done_ == nullptr ? 0 : left_;
}

Remaking::~Remaking() {
  if (done_ != nullptr) {
    os::unmap(done_, granules_ + 1);
  }
}

bool Remaking::take(const Slab& slab, std::uint64_t offset) {
  run_count_ = 0;
  const std::uint64_t top = std::min(granules_, (offset + kStripe) / kGranule);
  if (slab.height() < granules_ * kGranule) {
    return false;
  }
  Space& space = slab.space();
  for (PageMap::Run free = space.runs.next_free(offset / kGranule, top); free.count != 0;
       free = space.runs.next_free(free.first + free.count, top)) {
    const std::uint64_t end = free.first + free.count;
    for (std::uint64_t first = free.first; first < end;) {
      const std::uint64_t next =
          first +
          static_cast<std::uint64_t>(
              std::find(done_ + first, done_ + end, done_[first] == 0 ? 1 : 0) - (done_ + first));
      char* const start = space.address(first);
      const std::uint64_t bytes = (next - first) * kGranule;
      if (done_[first] == 0) {
        const bool wanted = mostly_resident(start, bytes);
        space.give_back(first, next - first);
        std::fill(done_ + first, done_ + next, std::uint8_t{1});
        left_ -= next - first;
        if (wanted && run_count_ < kMaxRuns) {
          runs_[run_count_++] = {start, bytes};
        }
      }
      first = next;
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
