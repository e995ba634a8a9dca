#include "src/serve/free_runs.h"

#include <algorithm>

#include "src/base/bits.h"

namespace memo {
namespace {

constexpr std::uint8_t kUsed = PageStates::kUsed;
constexpr std::uint8_t kDirty = PageStates::kDirty;
constexpr std::uint64_t kWord = PageStates::kWord;
constexpr std::uint64_t kEveryByte = PageStates::kEveryByte;

}  // namespace

// The end of the stretch of such granules that begins at `at`: eight granules a step, and 64 known
// chunks a step. The first granule is of that kind.
std::uint64_t FreeRuns::end_of(Kind kind, std::uint64_t at, Walk& walk) const {
  constexpr std::uint64_t kChunk = FreeChunks::kChunk;
  const std::uint8_t mask = kind == Kind::kFree ? kUsed : kUsed | kDirty;
  const std::uint8_t wanted = kind == Kind::kDirty ? kDirty : 0;
  const std::uint64_t first = at++;
  const auto go_on = [&](std::uint64_t to) {
    while (at < to && (pages_.states().at(at) & mask) == wanted) {
      ++at;
    }
    return at == to;
  };
  if (!go_on(std::min(round_up(at, kWord), walk.to))) {
    return at;
  }
  const std::uint64_t words_end = round_down(walk.to, kWord);
  while (at < words_end && walk.steps != 0) {
    if (at % kChunk == 0 && chunks_.kept()) {
      at = chunks_.pass(kind, at, words_end, walk.steps);
    }
    const std::uint64_t chunk_end = std::min(round_up(at + 1, kChunk), words_end);
    const std::uint64_t end = at + std::min(chunk_end - at, walk.steps * kWord);
    const std::uint64_t before = at;
    at = end_of_words(kEveryByte * mask, kEveryByte * wanted, at, end);
    walk.steps -= (at - before) / kWord;
    if (at != end) {
      go_on(at + kWord);
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
std::uint64_t FreeRuns::end_of_words(std::uint64_t mask, std::uint64_t wanted, std::uint64_t at,
                                     std::uint64_t end) const {
  while (at != end && (pages_.states().eight(at) & mask) == wanted) {
    at += kWord;
  }
  return at;
}

FreeRuns::Run FreeRuns::next_free(Walk& walk) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const std::uint64_t at = walk.at;
    const std::uint8_t bits = pages_.states().at(at);
    if ((bits & kUsed) == 0) {
      walk.at = end_of(Kind::kFree, at, walk);
      return {at, walk.at - at};
    }
    walk.at = pages_.past(at, bits);
  }
  return {};
}

FreeRuns::Run FreeRuns::next_dirty(Walk& walk, std::uint64_t most) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const std::uint64_t at = walk.at;
    const std::uint8_t bits = pages_.states().at(at);
    if (bits == kDirty) {
      Walk run{at, std::min(walk.to, at + std::min(most, walk.to)), walk.steps};
      walk.at = end_of(Kind::kDirty, at, run);
      walk.steps = run.steps;
      return {at, walk.at - at};
    }
    walk.at = bits == 0 ? end_of(Kind::kClean, at, walk) : pages_.past(at, bits);
  }
  return {};
}

FreeRuns::Run FreeRuns::best_fit(Walk& walk, std::uint64_t count, std::uint64_t alignment) const {
  Run best;
  std::uint64_t best_clean = UINT64_MAX;
  std::uint64_t best_slack = UINT64_MAX;
  // Places the block at `start` of a run with `slack`, if that is better; whether it lacks memory.
  const auto weigh = [&](std::uint64_t start, std::uint64_t slack) {
    const PageMap::Claim claim = pages_.look(start, count);
    walk.steps -= std::min(walk.steps, count / kWord);
    const std::uint64_t clean = count - claim.dirty;
    // It is not granted where a block is just being released.
    if (claim.granted && (clean < best_clean || (clean == best_clean && slack < best_slack))) {
      best = {start, count};
      best_clean = clean;
      best_slack = slack;
    }
    return clean != 0;
  };
  // Where memory begins again behind a run's first clean granules; its end if it does not.
  const auto next_stretch = [&](const Run& run) {
    Walk inside{run.first, run.first + run.count, walk.steps};
    if (pages_.states().at(inside.at) != 0) {
      inside.at = end_of(Kind::kDirty, inside.at, inside);
    }
    if (inside.at < inside.to && inside.steps != 0) {
      inside.at = end_of(Kind::kClean, inside.at, inside);
    }
    walk.steps = inside.steps;
    return inside.at;
  };
  for (Run run = next_free(walk); run.count != 0; run = next_free(walk)) {
    const std::uint64_t low = (run.first + alignment - 1) & ~(alignment - 1);
    const std::uint64_t end = run.first + run.count;
    if (low + count > end) {
      continue;
    }
    const std::uint64_t slack = run.count - count;
    if (weigh(low, slack)) {
      const std::uint64_t high = std::min(next_stretch(run), end - count) & ~(alignment - 1);
      if (high > low) {
        weigh(high, slack);
      }
    }
    if (best_clean == 0 && best_slack == 0) {
      break;
    }
  }
  return best;
}

std::uint64_t FreeRuns::tail(Tail kind, std::uint64_t from, std::uint64_t to) const {
  const PageStates& states = pages_.states();
  const std::uint8_t mask = kind == Tail::kFree ? kUsed : kUsed | kDirty;
  while (to > from && (states.at(to - 1) & mask) == 0) {
    const bool word = to % kWord == 0 && to - from >= kWord &&
                      (states.eight(to - kWord) & (kEveryByte * mask)) == 0;
    to -= word ? kWord : 1;
  }
  return to;
}

void FreeRuns::note_free(std::uint64_t first, std::uint64_t count, bool clean) const {
  if (!chunks_.kept()) {
    return;
  }
  // Not kDirty: a walk would give the memory back, and the granules with it, before the release has
  // come to them. To be passed as clean or looked at as free does a block no harm.
  chunks_.set(clean ? Kind::kClean : Kind::kFree, first, count);
}

void FreeRuns::note_claimed(std::uint64_t first, std::uint64_t count) const {
  if (!chunks_.kept()) {
    return;
  }
  chunks_.clear(Kind::kFree, first, count);
  chunks_.clear(Kind::kClean, first, count);
  chunks_.clear(Kind::kDirty, first, count);
}

void FreeRuns::note_clean(std::uint64_t first, std::uint64_t count) const {
  if (!chunks_.kept()) {
    return;
  }
  chunks_.clear(Kind::kDirty, first, count);
  chunks_.set(Kind::kClean, first, count);
}

bool FreeRuns::valid(std::uint64_t granules) const {
  for (std::uint64_t chunk = 0; chunks_.kept() && chunk < granules / FreeChunks::kChunk; ++chunk) {
    for (std::uint64_t i = 0; i < FreeChunks::kChunk; ++i) {
      const std::uint8_t bits = pages_.states().at(chunk * FreeChunks::kChunk + i);
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
