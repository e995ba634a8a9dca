#include "src/serve/page_map.h"

#include <algorithm>
#include <atomic>

#include "src/base/bits.h"

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

// The states of eight granules, the first of them a multiple of eight; acquires what whoever set
// each has done before.
std::uint64_t eight_states(const std::uint8_t* bytes) {
  if (kWordAtATime) {
    return __atomic_load_n(reinterpret_cast<const Word*>(bytes), __ATOMIC_ACQUIRE);
  }
  std::uint64_t bits = 0;
  for (std::uint64_t i = 0; i < sizeof(Word); ++i) {
    bits |= std::uint64_t{__atomic_load_n(bytes + i, __ATOMIC_ACQUIRE)} << (8 * i);
  }
  return bits;
}

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

// The end of the stretch of such granules that begins at `at`: eight granules a step, and 64 known
// chunks a step. The first granule is of that kind.
std::uint64_t PageMap::end_of(Kind kind, std::uint64_t at, Walk& walk) const {
  constexpr std::uint64_t kChunk = FreeChunks::kChunk;
  const std::uint8_t mask = kind == Kind::kFree ? kUsed : kUsed | kDirty;
  const std::uint8_t wanted = kind == Kind::kDirty ? kDirty : 0;
  const std::uint64_t first = at++;
  const auto go_on = [&](std::uint64_t to) {
    while (at < to && (state(at) & mask) == wanted) {
      ++at;
    }
    return at == to;
  };
  if (!go_on(std::min(round_up(at, sizeof(Word)), walk.to))) {
    return at;
  }
  const std::uint64_t words_end = round_down(walk.to, sizeof(Word));
  while (at < words_end && walk.steps != 0) {
    if (at % kChunk == 0 && chunks_.kept()) {
      at = chunks_.pass(kind, at, words_end, walk.steps);
    }
    const std::uint64_t chunk_end = std::min(round_up(at + 1, kChunk), words_end);
    const std::uint64_t end = at + std::min(chunk_end - at, walk.steps * sizeof(Word));
    const std::uint64_t before = at;
    at = end_of_words(kEveryByte * mask, kEveryByte * wanted, at, end);
    walk.steps -= (at - before) / sizeof(Word);
    if (at != end) {
      go_on(at + sizeof(Word));
      return at;
    }
    if (at % kChunk == 0 && at - first >= kChunk && at != before && chunks_.kept()) {
      chunks_.set(kind, at - kChunk, kChunk);
    }
  }
  if (at == words_end) {
    go_on(walk.to);
  }
  return at;
}

// The first of the words of [at, end) whose bits under `mask` are not `wanted`; whole words.
std::uint64_t PageMap::end_of_words(std::uint64_t mask, std::uint64_t wanted, std::uint64_t at,
                                    std::uint64_t end) const {
  while (at != end && (eight_states(state_ + at) & mask) == wanted) {
    at += sizeof(Word);
  }
  return at;
}

PageMap::Run PageMap::next_dirty(Walk& walk, std::uint64_t most) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const std::uint64_t at = walk.at;
    const std::uint8_t bits = state(at);
    if (bits == kDirty) {
      Walk run{at, std::min(walk.to, at + std::min(most, walk.to)), walk.steps};
      walk.at = end_of(Kind::kDirty, at, run);
      walk.steps = run.steps;
      return {at, walk.at - at};
    }
    if (bits == 0) {
      walk.at = end_of(Kind::kClean, at, walk);
    } else {
      walk.at += (bits & kStart) != 0 ? length_[at] : 1;
    }
  }
  return {};
}

void PageMap::mark_clean(std::uint64_t first, std::uint64_t count) {
  fill(first, count, 0);
  if (chunks_.kept()) {
    chunks_.clear(Kind::kDirty, first, count);
    chunks_.set(Kind::kClean, first, count);
  }
}

void PageMap::note_free(std::uint64_t first, std::uint64_t count, bool clean) {
  if (!chunks_.kept()) {
    return;
  }
  // Not kDirty: a walk would give the memory back, and the granules with it, before the release has
  // come to them. To be passed as clean or looked at as free does a block no harm.
  chunks_.set(clean ? Kind::kClean : Kind::kFree, first, count);
}

std::uint64_t PageMap::tail(Tail kind, std::uint64_t from, std::uint64_t to) const {
  constexpr std::uint64_t kWord = sizeof(Word);
  const std::uint8_t mask = kind == Tail::kFree ? kUsed : kUsed | kDirty;
  while (to > from && (state(to - 1) & mask) == 0) {
    const bool word = to % kWord == 0 && to - from >= kWord &&
                      (eight_states(state_ + to - kWord) & (kEveryByte * mask)) == 0;
    to -= word ? kWord : 1;
  }
  return to;
}

void PageMap::note_claimed(std::uint64_t first, std::uint64_t count) {
  if (!chunks_.kept()) {
    return;
  }
  chunks_.clear(Kind::kFree, first, count);
  chunks_.clear(Kind::kClean, first, count);
  chunks_.clear(Kind::kDirty, first, count);
}

bool PageMap::valid(std::uint64_t granules, Sums* sums) const {
  Sums found;
  for (std::uint64_t at = 0; at < granules;) {
    const std::uint8_t bits = state(at);
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
      if (state(i) != (kUsed | kDirty)) {
        return false;
      }
    }
    found.used += count;
    at += count;
  }
  if (sums != nullptr) {
    *sums = found;
  }
  return chunks_valid(granules);
}

// What is known of whole chunks holds for each of their granules.
bool PageMap::chunks_valid(std::uint64_t granules) const {
  for (std::uint64_t chunk = 0; chunks_.kept() && chunk < granules / FreeChunks::kChunk; ++chunk) {
    for (std::uint64_t i = 0; i < FreeChunks::kChunk; ++i) {
      const std::uint8_t bits = state(chunk * FreeChunks::kChunk + i);
      if ((chunks_.has(Kind::kFree, chunk) && (bits & kUsed) != 0) ||
          (chunks_.has(Kind::kClean, chunk) && bits != 0) ||
          (chunks_.has(Kind::kDirty, chunk) && bits != kDirty)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace memo
