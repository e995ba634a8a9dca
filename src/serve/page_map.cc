#include "src/serve/page_map.h"

#include <atomic>

namespace memo {
namespace {

// The thread sanitizer takes only accesses of equal size for synchronising, so it gets bytes alone.
#ifdef __SANITIZE_THREAD__
constexpr bool kWordAtATime = false;
#else
constexpr bool kWordAtATime = true;
#endif

constexpr std::uint64_t kEveryByte = 0x0101010101010101ULL;

using Word [[gnu::may_alias]] = std::uint64_t;

// Splits [first, first + count) of a byte array into single bytes and aligned words of eight.
template <typename ByteFunction, typename WordFunction>
void sweep(std::uint8_t* bytes, std::uint64_t count, ByteFunction&& byte, WordFunction&& word) {
  std::uint8_t* const end = bytes + count;
  while (bytes != end && kWordAtATime &&
         reinterpret_cast<std::uintptr_t>(bytes) % sizeof(Word) != 0) {
    byte(bytes++);
  }
  // Four words a turn: a served block of 1 MiB has 32 of them, claimed and released for each layer.
  for (; kWordAtATime && end - bytes >= static_cast<std::ptrdiff_t>(4 * sizeof(Word));
       bytes += 4 * sizeof(Word)) {
    auto* const words = reinterpret_cast<Word*>(bytes);
    word(words);
    word(words + 1);
    word(words + 2);
    word(words + 3);
  }
  for (; kWordAtATime && end - bytes >= static_cast<std::ptrdiff_t>(sizeof(Word));
       bytes += sizeof(Word)) {
    word(reinterpret_cast<Word*>(bytes));
  }
  while (bytes != end) {
    byte(bytes++);
  }
}

}  // namespace

std::uint8_t PageMap::state(std::uint64_t granule) const {
  return __atomic_load_n(state_ + granule, __ATOMIC_ACQUIRE);
}

void PageMap::set_state(std::uint64_t granule, std::uint8_t value) {
  __atomic_store_n(state_ + granule, value, __ATOMIC_RELEASE);
}

// Acquire: the releasing thread's last writes to the block happen before the claimer's first.
PageMap::Claim PageMap::look(std::uint64_t first, std::uint64_t count) const {
  constexpr std::uint64_t kAllDirty = kEveryByte * kDirty;
  std::uint64_t any = 0;
  std::uint64_t every = kAllDirty;
  const auto note = [&](std::uint64_t bits) {
    any |= bits;
    every &= bits;
  };
  sweep(
      state_ + first, count,
      [&](std::uint8_t* byte) { note(__atomic_load_n(byte, __ATOMIC_ACQUIRE) * kEveryByte); },
      [&](Word* word) { note(__atomic_load_n(word, __ATOMIC_ACQUIRE)); });
  const bool granted = (any & (kEveryByte * kUsed)) == 0;
  if (every == kAllDirty || (any & kAllDirty) == 0) {
    return {granted, every == kAllDirty ? count : 0};
  }
  return {granted, count_dirty(first, count)};
}

// For free places that are partly dirty; no other thread makes a free granule dirty or clean.
std::uint64_t PageMap::count_dirty(std::uint64_t first, std::uint64_t count) const {
  std::uint64_t dirty = 0;
  // The sum of a word's bytes by one multiplication; baseline x86-64 has no instruction to count
  // bits.
  const auto note = [&](std::uint64_t bits) {
    dirty += ((bits / kDirty & kEveryByte) * kEveryByte) >> 56;
  };
  sweep(
      state_ + first, count,
      [&](std::uint8_t* byte) { note(__atomic_load_n(byte, __ATOMIC_RELAXED)); },
      [&](Word* word) { note(__atomic_load_n(word, __ATOMIC_RELAXED)); });
  return dirty;
}

void PageMap::fill(std::uint64_t first, std::uint64_t count, std::uint8_t value) {
  sweep(
      state_ + first, count,
      [&](std::uint8_t* byte) { __atomic_store_n(byte, value, __ATOMIC_RELEASE); },
      [&](Word* word) { __atomic_store_n(word, kEveryByte * value, __ATOMIC_RELEASE); });
}

PageMap::Claim PageMap::claim(std::uint64_t first, std::uint64_t count) {
  const Claim claim = look(first, count);
  if (claim.granted) {
    length_[first] = static_cast<std::uint32_t>(count);
    fill(first + 1, count - 1, kUsed | kDirty);
    set_state(first, kUsed | kStart | kDirty);
  }
  return claim;
}

std::uint64_t PageMap::release(std::uint64_t first, bool clean) {
  std::uint8_t expected = kUsed | kStart | kDirty;
  if (!__atomic_compare_exchange_n(state_ + first, &expected,
                                   static_cast<std::uint8_t>(kUsed | kDirty), false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    return 0;
  }
  const std::uint64_t count = length_[first];
  fill(first, count, clean ? 0 : kDirty);
  return count;
}

PageMap::Claim PageMap::extend(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t now = length_[first];
  const Claim claim = look(first + now, count - now);
  if (claim.granted) {
    fill(first + now, count - now, kUsed | kDirty);
    length_[first] = static_cast<std::uint32_t>(count);
  }
  return claim;
}

std::uint64_t PageMap::shrink(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t now = length_[first];
  length_[first] = static_cast<std::uint32_t>(count);
  fill(first + count, now - count, kDirty);
  return now - count;
}

std::uint64_t PageMap::length(std::uint64_t first) const {
  return (state(first) & kStart) != 0 ? length_[first] : 0;
}

PageMap::Run PageMap::block_at(std::uint64_t granule) const {
  constexpr std::uint64_t kMostBack = 1ULL << 20;
  const std::uint64_t least = granule < kMostBack ? 0 : granule - kMostBack;
  for (std::uint64_t at = granule; (state(at) & kUsed) != 0; --at) {
    if ((state(at) & kStart) != 0) {
      return length_[at] > granule - at ? Run{at, length_[at]} : Run{};
    }
    if (at == least) {
      break;
    }
  }
  return {};
}

std::uint64_t PageMap::freed_length(std::uint64_t granule) const {
  return (state(granule) & kUsed) == 0 ? length_[granule] : 0;
}

// The first granule at or after `at` with any of `bits`, or `to`; eight granules a step, since runs
// can be long.
std::uint64_t PageMap::first_with(std::uint8_t bits, std::uint64_t at, std::uint64_t to) const {
  while (at < to && at % sizeof(Word) != 0 && (state(at) & bits) == 0) {
    ++at;
  }
  while (at + sizeof(Word) <= to && at % sizeof(Word) == 0 &&
         (__atomic_load_n(reinterpret_cast<const Word*>(state_ + at), __ATOMIC_ACQUIRE) &
          (kEveryByte * bits)) == 0) {
    at += sizeof(Word);
  }
  while (at < to && (state(at) & bits) == 0) {
    ++at;
  }
  return at;
}

PageMap::Run PageMap::next_free(Walk& walk) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const std::uint64_t at = walk.at;
    const std::uint8_t bits = state(at);
    if ((bits & kUsed) == 0) {
      walk.at = first_with(kUsed, at, walk.to);
      return {at, walk.at - at};
    }
    walk.at += (bits & kStart) != 0 ? length_[at] : 1;
  }
  return {};
}

PageMap::Run PageMap::best_fit(Walk& walk, std::uint64_t count, std::uint64_t alignment) const {
  Run best;
  std::uint64_t best_clean = UINT64_MAX;
  std::uint64_t best_slack = UINT64_MAX;
  for (Run run = next_free(walk); run.count != 0; run = next_free(walk)) {
    const std::uint64_t start = (run.first + alignment - 1) & ~(alignment - 1);
    if (start + count > run.first + run.count) {
      continue;
    }
    const std::uint64_t clean = count - look(start, count).dirty;
    const std::uint64_t slack = run.count - count;
    if (clean < best_clean || (clean == best_clean && slack < best_slack)) {
      best = {start, count};
      best_clean = clean;
      best_slack = slack;
      if (clean == 0 && slack == 0) {
        break;
      }
    }
  }
  return best;
}

PageMap::Run PageMap::next_dirty(Walk& walk, std::uint64_t most) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const std::uint64_t at = walk.at;
    const std::uint8_t bits = state(at);
    if (bits == kDirty) {
      std::uint64_t end = at + 1;
      while (end < walk.to && end - at < most && state(end) == kDirty) {
        ++end;
      }
      walk.at = end;
      return {at, end - at};
    }
    if (bits == 0) {
      walk.at = first_with(kUsed | kDirty, at, walk.to);
    } else {
      walk.at += (bits & kStart) != 0 ? length_[at] : 1;
    }
  }
  return {};
}

void PageMap::mark_clean(std::uint64_t first, std::uint64_t count) {
  fill(first, count, 0);
}

}  // namespace memo
