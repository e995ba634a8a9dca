// See zone.h. Cold.
#include "src/gpu/zone.h"

#include <algorithm>

#include "src/base/check.h"

namespace memo::gpu {

Zone::Zone(Physical& physical, Clock& clock, Interval addresses, std::uint64_t chunk_bytes)
    : physical_(physical), clock_(clock), base_(addresses.lower), chunk_bytes_(chunk_bytes) {
  if (addresses.bytes() != 0) {
    free_.add(0, addresses.bytes());
  }
}

void Zone::occupy(std::uint64_t offset, std::uint64_t bytes) {
  MEMO_CHECK(free_.contains(offset, offset + bytes));
  free_.remove(offset, offset + bytes);
  ready_.remove_any(offset, offset + bytes);
  const std::uint64_t last = (offset + bytes - 1) / chunk_bytes_;
  if (last >= chunks_.size()) {
    chunks_.resize(last + 1);
  }
  for (std::uint64_t chunk = offset / chunk_bytes_; chunk <= last; ++chunk) {
    ++chunks_[chunk].blocks;
  }
}

bool Zone::claim(std::uint64_t offset, std::uint64_t bytes) {
  if (!ready_.contains(offset, offset + bytes)) {
    return false;
  }
  occupy(offset, bytes);
  return true;
}

bool Zone::claim_bare(std::uint64_t offset, std::uint64_t bytes) {
  if (!free_.contains(offset, offset + bytes)) {
    return false;
  }
  occupy(offset, bytes);
  return true;
}

std::optional<std::uint64_t> Zone::allocate(std::uint64_t bytes) {
  const std::optional<Interval> place = ready_.best_fit(bytes);
  if (!place) {
    return std::nullopt;
  }
  occupy(place->lower, bytes);
  return place->lower;
}

std::uint64_t Zone::count_missing(std::uint64_t offset, std::uint64_t bytes) const {
  std::uint64_t count = 0;
  for (std::uint64_t chunk = offset / chunk_bytes_; chunk <= (offset + bytes - 1) / chunk_bytes_;
       ++chunk) {
    count += chunk >= chunks_.size() || chunks_[chunk].handle == 0;
  }
  return count;
}

std::optional<std::uint64_t> Zone::allocate_bare(std::uint64_t bytes) {
  constexpr int kCandidates = 24;
  std::optional<std::uint64_t> best;
  std::uint64_t best_missing = UINT64_MAX;
  int left = kCandidates;
  const auto consider = [&](std::uint64_t offset) {
    const std::uint64_t count = count_missing(offset, bytes);
    if (count < best_missing) {
      best_missing = count;
      best = offset;
    }
  };
  const Intervals::BySize& sizes = free_.by_size();
  // The smallest free ranges, and the largest, which is all that no block has reached yet.
  for (auto at = sizes.lower_bound({bytes, 0}); at != sizes.end(); ++at) {
    if (--left < 0) {
      at = std::prev(sizes.end());
    }
    consider(at->second);
    consider(at->second + at->first - bytes);
  }
  if (best) {
    occupy(*best, bytes);
  }
  return best;
}

void Zone::release(std::uint64_t offset, std::uint64_t bytes) {
  for (std::uint64_t chunk = offset / chunk_bytes_; chunk <= (offset + bytes - 1) / chunk_bytes_;
       ++chunk) {
    MEMO_CHECK(chunks_[chunk].blocks != 0);
    --chunks_[chunk].blocks;
    chunks_[chunk].epoch = clock_.now();
    if (chunks_[chunk].handle != 0) {
      const std::uint64_t lower = std::max(offset, chunk * chunk_bytes_);
      const std::uint64_t upper = std::min(offset + bytes, (chunk + 1) * chunk_bytes_);
      ready_.add(lower, upper);
    }
  }
  free_.add(offset, offset + bytes);
  clock_.freed();
}

std::vector<std::uint32_t> Zone::missing(std::uint64_t offset, std::uint64_t bytes) const {
  std::vector<std::uint32_t> result;
  for (std::uint64_t chunk = offset / chunk_bytes_; chunk <= (offset + bytes - 1) / chunk_bytes_;
       ++chunk) {
    if (chunk >= chunks_.size() || chunks_[chunk].handle == 0) {
      result.push_back(static_cast<std::uint32_t>(chunk));
    }
  }
  return result;
}

bool Zone::fill(std::uint32_t first, const std::vector<Handle>& handles) {
  const std::uint64_t lower = first * chunk_bytes_;
  const std::uint64_t upper = lower + handles.size() * chunk_bytes_;
  if (!physical_.map(base_ + lower, chunk_bytes_, handles)) {
    return false;
  }
  if (first + handles.size() > chunks_.size()) {
    chunks_.resize(first + handles.size());
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    MEMO_CHECK(chunks_[first + i].handle == 0);
    chunks_[first + i].handle = handles[i];
  }
  committed_ += upper - lower;
  free_.each_within(lower, upper,
                    [&](std::uint64_t from, std::uint64_t to) { ready_.add(from, to); });
  return true;
}

Handle Zone::empty(std::uint32_t chunk) {
  const std::uint64_t lower = chunk * chunk_bytes_;
  ready_.remove_any(lower, lower + chunk_bytes_);
  physical_.unmap(base_ + lower, chunk_bytes_);
  const Handle handle = chunks_[chunk].handle;
  chunks_[chunk].handle = 0;
  committed_ -= chunk_bytes_;
  return handle;
}

Handle Zone::take_idle() {
  if (pinned) {
    return 0;
  }
  const std::uint64_t over = clock_.over();
  const Intervals::BySize& sizes = ready_.by_size();
  for (auto at = sizes.lower_bound({chunk_bytes_, 0}); at != sizes.end(); ++at) {
    // From the end: what lies low stays together.
    for (std::uint64_t chunk = (at->second + at->first) / chunk_bytes_;
         chunk-- > (at->second + chunk_bytes_ - 1) / chunk_bytes_;) {
      if (chunks_[chunk].epoch < over) {
        MEMO_CHECK(chunks_[chunk].blocks == 0);
        return empty(static_cast<std::uint32_t>(chunk));
      }
    }
  }
  return 0;
}

void Zone::give_all(bool blocks) {
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    if (chunks_[chunk].handle != 0 && (blocks || chunks_[chunk].blocks == 0)) {
      physical_.give(empty(chunk), chunk_bytes_);
    }
  }
}

bool Zone::has_idle() const {
  return std::any_of(chunks_.begin(), chunks_.end(),
                     [](const Chunk& chunk) { return chunk.handle != 0 && chunk.blocks == 0; });
}

bool Zone::empty() const {
  return std::all_of(chunks_.begin(), chunks_.end(),
                     [](const Chunk& chunk) { return chunk.handle == 0 && chunk.blocks == 0; });
}

bool Zone::valid() const {
  std::uint64_t committed = 0;
  for (std::uint64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const std::uint64_t lower = chunk * chunk_bytes_;
    const bool has_memory = chunks_[chunk].handle != 0;
    committed += has_memory ? chunk_bytes_ : 0;
    std::uint64_t free = 0;
    std::uint64_t ready = 0;
    const std::uint64_t upper = lower + chunk_bytes_;
    free_.each_within(lower, upper,
                      [&](std::uint64_t from, std::uint64_t to) { free += to - from; });
    ready_.each_within(lower, upper,
                       [&](std::uint64_t from, std::uint64_t to) { ready += to - from; });
    if (ready != (has_memory ? free : 0) ||
        (chunks_[chunk].blocks == 0) != (free == chunk_bytes_)) {
      return false;
    }
  }
  return committed == committed_;
}

}  // namespace memo::gpu
