#include "src/serve/page_map.h"

#include <algorithm>

#include "src/base/tuning.h"

namespace memo {

// Acquire: the releasing thread's last writes to the block happen before the claimer's first.
PageMap::Claim PageMap::look(Granules first, Granules count) const {
  constexpr std::uint64_t kAllDirty = PageStates::kEveryByte * kDirty;
  std::uint64_t any = 0;
  std::uint64_t every = kAllDirty;
  states_.each(first, count, [&](std::uint64_t bits) {
    any |= bits;
    every &= bits;
  });
  const bool granted = (any & (PageStates::kEveryByte * kUsed)) == 0;
  if (every == kAllDirty || (any & kAllDirty) == 0) {
    return {granted, every == kAllDirty ? count : Granules{0}};
  }
  // No other thread makes a free granule dirty or clean.
  return {granted, states_.count_dirty(first, count)};
}

PageMap::Claim PageMap::claim(Granules first, Granules count) {
  const Claim claim = look(first, count);
  if (claim.granted) {
    note(first, count);
    states_.fill(first, count, kUsed | kDirty);  // from an aligned word on, where a plan places it
    states_.set(first, kUsed | kStart | kDirty);
  }
  return claim;
}

Granules PageMap::free(Granules first, Left left) {
  constexpr std::uint8_t kBlock = kUsed | kStart | kDirty;
  if (!states_.replace(first, kBlock, kUsed | kDirty) &&
      !states_.replace(first, kBlock | kAltered, kUsed | kDirty)) {
    return Granules{0};
  }
  const Granules count = noted(first);
  if (left == Left::kUnmarked) {
    states_.keep(first, count, kDirty);
  } else {
    states_.fill(first, count, left == Left::kNone ? 0 : kDirty);
  }
  return count;
}

void PageMap::mark(Granules from, Granules to, std::uint8_t bits) {
  const Run block = block_at(from);
  for (Granules at = block.found() ? block.first : from; at < to;) {
    std::uint8_t before = states_.at(at);
    // Another thread may mark it as well, or free it.
    while ((before & kStart) != 0 &&
           !states_.replace(at, before, static_cast<std::uint8_t>(before | bits))) {
      before = states_.at(at);
    }
    at = past(at, before);
  }
}

PageMap::Claim PageMap::extend(Granules first, Granules count) {
  const Granules now = noted(first);
  const Claim claim = look(first + now, count - now);
  if (claim.granted) {
    states_.fill(first + now, count - now, kUsed | kDirty);
    note(first, count);
  }
  return claim;
}

void PageMap::shrink(Granules first, Granules count, Granules clean) {
  const Granules now = noted(first);
  note(first, count);
  states_.fill(first + count, now - count - clean, kDirty);
  states_.fill(first + now - clean, clean, 0);
}

void PageMap::mark_clean(Granules first, Granules count) {
  states_.keep(first, count, static_cast<std::uint8_t>(~kDirty));
}

Granules PageMap::length(Granules first) const {
  return (states_.at(first) & kStart) != 0 ? noted(first) : Granules{0};
}

PageMap::Run PageMap::block_at(Granules granule) const {
  constexpr Granules kWord = PageStates::kWord;
  const auto is_inside = [this](Granules word) {
    const std::uint64_t bits = states_.eight(word) & (PageStates::kEveryByte * (kUsed | kStart));
    return bits == PageStates::kEveryByte * kUsed;
  };
  for (Granules at = granule; (states_.at(at) & kUsed) != 0; --at) {
    if ((states_.at(at) & kStart) != 0) {
      return noted(at) > granule - at ? Run{at, noted(at)} : Run{};
    }
    while (at != Granules{0} && at % kWord == Granules{0} && is_inside(at - kWord)) {
      at -= kWord;
    }
    if (at == Granules{0}) {
      break;
    }
  }
  return {};
}

Granules PageMap::freed_length(Granules granule) const {
  return (states_.at(granule) & kUsed) == 0 ? noted(granule) : Granules{0};
}

PageMap::Run PageMap::next_free(Granules from, Granules to) const {
  constexpr std::uint64_t kAnyUsed = PageStates::kEveryByte * kUsed;
  constexpr Granules kWord = PageStates::kWord;
  while (from < to) {
    const std::uint8_t bits = states_.at(from);
    if ((bits & kUsed) == 0) {
      break;
    }
    from = past(from, bits);
  }
  Granules end = from;
  while (end < to && (states_.at(end) & kUsed) == 0) {
    const bool word =
        end % kWord == Granules{0} && to - end >= kWord && (states_.eight(end) & kAnyUsed) == 0;
    end += word ? kWord : Granules{1};
  }
  return end > from ? Run{from, end - from} : Run{};
}

Granules PageMap::tail(Tail kind, Granules from, Granules to) const {
  constexpr Granules kWord = PageStates::kWord;
  const std::uint8_t mask = kind == Tail::kFree ? kUsed : kUsed | kDirty;
  while (to > from && (states_.at(to - Granules{1}) & mask) == 0) {
    const bool word = to % kWord == Granules{0} && to - from >= kWord &&
                      (states_.eight(to - kWord) & (PageStates::kEveryByte * mask)) == 0;
    to -= word ? kWord : Granules{1};
  }
  return to;
}

bool PageMap::valid(Granules granules, Sums* sums) const {
  Sums found;
  for (Granules at; at < granules;) {
    const std::uint8_t bits = states_.at(at);
    if ((bits & kUsed) == 0) {
      if (bits != 0 && bits != kDirty) {
        return false;
      }
      found.dirty += Granules{bits == kDirty ? 1U : 0U};
      ++at;
      continue;
    }
    const Granules count = noted(at);
    if ((bits & ~(kAltered | PageStates::kLost)) != (kUsed | kStart | kDirty) ||
        count == Granules{0} || count > granules - at) {
      return false;
    }
    for (Granules i = at + Granules{1}; i < at + count; ++i) {
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
