#include "src/serve/page_map.h"

#include "src/base/tuning.h"

namespace memo {

// Acquire: the releasing thread's last writes to the block happen before the claimer's first.
PageMap::Claim PageMap::look(std::uint64_t first, std::uint64_t count) const {
  constexpr std::uint64_t kAllDirty = PageStates::kEveryByte * kDirty;
  std::uint64_t any = 0;
  std::uint64_t every = kAllDirty;
  states_.each(first, count, [&](std::uint64_t bits) {
    any |= bits;
    every &= bits;
  });
  const bool granted = (any & (PageStates::kEveryByte * kUsed)) == 0;
  if (every == kAllDirty || (any & kAllDirty) == 0) {
    return {granted, every == kAllDirty ? count : 0};
  }
  // No other thread makes a free granule dirty or clean.
  return {granted, states_.count_dirty(first, count)};
}

PageMap::Claim PageMap::claim(std::uint64_t first, std::uint64_t count) {
  const Claim claim = look(first, count);
  if (claim.granted) {
    length_[first] = static_cast<std::uint32_t>(count);
    states_.fill(first + 1, count - 1, kUsed | kDirty);
    states_.set(first, kUsed | kStart | kDirty);
  }
  return claim;
}

std::uint64_t PageMap::release(std::uint64_t first, bool clean) {
  if (!states_.replace(first, kUsed | kStart | kDirty, kUsed | kDirty)) {
    return 0;
  }
  const std::uint64_t count = length_[first];
  states_.fill(first, count, clean ? 0 : kDirty);
  return count;
}

PageMap::Claim PageMap::extend(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t now = length_[first];
  const Claim claim = look(first + now, count - now);
  if (claim.granted) {
    states_.fill(first + now, count - now, kUsed | kDirty);
    length_[first] = static_cast<std::uint32_t>(count);
  }
  return claim;
}

std::uint64_t PageMap::shrink(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t now = length_[first];
  length_[first] = static_cast<std::uint32_t>(count);
  states_.fill(first + count, now - count, kDirty);
  return now - count;
}

void PageMap::mark_clean(std::uint64_t first, std::uint64_t count) {
  states_.fill(first, count, 0);
}

std::uint64_t PageMap::length(std::uint64_t first) const {
  return (states_.at(first) & kStart) != 0 ? length_[first] : 0;
}

PageMap::Run PageMap::block_at(std::uint64_t granule) const {
  const std::uint64_t least = granule < tuning::kMaxLookBack ? 0 : granule - tuning::kMaxLookBack;
  for (std::uint64_t at = granule; (states_.at(at) & kUsed) != 0; --at) {
    if ((states_.at(at) & kStart) != 0) {
      return length_[at] > granule - at ? Run{at, length_[at]} : Run{};
    }
    if (at == least) {
      break;
    }
  }
  return {};
}

std::uint64_t PageMap::freed_length(std::uint64_t granule) const {
  return (states_.at(granule) & kUsed) == 0 ? length_[granule] : 0;
}

bool PageMap::valid(std::uint64_t granules, Sums* sums) const {
  Sums found;
  for (std::uint64_t at = 0; at < granules;) {
    const std::uint8_t bits = states_.at(at);
    if ((bits & kUsed) == 0) {
      if (bits != 0 && bits != kDirty) {
        return false;
      }
      found.dirty += bits == kDirty ? 1 : 0;
      ++at;
      continue;
    }
    const std::uint64_t count = length_[at];
    if (bits != (kUsed | kStart | kDirty) || count == 0 || count > granules - at) {
      return false;
    }
    for (std::uint64_t i = at + 1; i < at + count; ++i) {
      if (states_.at(i) != (kUsed | kDirty)) {
        return false;
      }
    }
    found.used += count;
    at += count;
  }
  if (sums != nullptr) {
    *sums = found;
  }
  return true;
}

}  // namespace memo
