#include "src/serve/free_runs.h"

#include <algorithm>

#include "src/base/granule.h"

namespace memo {
namespace {

constexpr std::uint8_t kUsed = PageStates::kUsed;
constexpr std::uint8_t kDirty = PageStates::kDirty;
constexpr Granules kWord = PageStates::kWord;
constexpr std::uint64_t kEveryByte = PageStates::kEveryByte;

}  // namespace

// The end of the stretch of such granules that begins at `at`: eight granules a step, and 64 known
// chunks a step. The first granule is of that kind.
Granules FreeRuns::end_of(Kind kind, Granules at, Walk& walk) const {
  constexpr Granules kChunk = FreeChunks::kChunk;
  const std::uint8_t mask = kind == Kind::kFree ? kUsed : kUsed | kDirty;
  const std::uint8_t wanted = kind == Kind::kDirty ? kDirty : 0;
  const Granules first = at;
  ++at;
  const auto go_on = [&](Granules to) {
    while (at < to && (pages_.states().at(at) & mask) == wanted) {
      ++at;
    }
    return at == to;
  };
  if (!go_on(std::min(round_up(at, kWord), walk.to))) {
    return at;
  }
  const Granules words_end = round_down(walk.to, kWord);
  while (at < words_end && walk.steps != 0) {
    if (at % kChunk == Granules{0} && chunks_.kept()) {
      at = chunks_.pass(kind, at, words_end, walk.steps);
    }
    const Granules chunk_end = std::min(round_up(at + Granules{1}, kChunk), words_end);
    const Granules end = at + std::min(chunk_end - at, walk.steps * kWord);
    const Granules before = at;
    at = end_of_words(kEveryByte * mask, kEveryByte * wanted, at, end);
    walk.steps -= (at - before) / kWord;
    if (at != end) {
      go_on(at + kWord);
      return at;
    }
    if (at % kChunk == Granules{0} && at - first >= kChunk && at != before && chunks_.kept()) {
      chunks_.set(kind, at - kChunk, kChunk);
    }
  }
  if (at == words_end) {
    go_on(walk.to);
  }
  return at;
}

// The first of the words of [at, end) whose bits under `mask` are not `wanted`; whole words.
Granules FreeRuns::end_of_words(std::uint64_t mask, std::uint64_t wanted, Granules at,
                                Granules end) const {
  while (at != end && (pages_.states().eight(at) & mask) == wanted) {
    at += kWord;
  }
  return at;
}

FreeRuns::Run FreeRuns::next_free(Walk& walk) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const Granules at = walk.at;
    const std::uint8_t bits = pages_.states().at(at);
    if ((bits & kUsed) == 0) {
      walk.at = end_of(Kind::kFree, at, walk);
      return {at, walk.at - at};
    }
    walk.at = pages_.past(at, bits);
  }
  return {};
}

FreeRuns::Run FreeRuns::next_dirty(Walk& walk, Granules most) const {
  while (walk.at < walk.to && walk.steps != 0) {
    --walk.steps;
    const Granules at = walk.at;
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

FreeRuns::Run FreeRuns::best_fit(Walk& walk, Granules count, Granules alignment) const {
  Run best;
  Granules best_clean = Granules::max();
  Granules best_slack = Granules::max();
  // Places the block at `start` of a run with `slack`, if that is better; whether it lacks memory.
  const auto weigh = [&](Granules start, Granules slack) {
    const PageMap::Claim claim = pages_.look(start, count);
    walk.steps -= std::min(walk.steps, count / kWord);
    const Granules clean = count - claim.dirty;
    // It is not granted where a block is just being released.
    if (claim.granted && (clean < best_clean || (clean == best_clean && slack < best_slack))) {
      best = {start, count};
      best_clean = clean;
      best_slack = slack;
    }
    return clean != Granules{0};
  };
  // Where memory begins again behind a run's first clean granules; its end if it does not.
  const auto next_stretch = [&](const Run& run) {
    Walk inside{run.first, run.end(), walk.steps};
    if (pages_.states().at(inside.at) != 0) {
      inside.at = end_of(Kind::kDirty, inside.at, inside);
    }
    if (inside.at < inside.to && inside.steps != 0) {
      inside.at = end_of(Kind::kClean, inside.at, inside);
    }
    walk.steps = inside.steps;
    return inside.at;
  };
  for (Run run = next_free(walk); run.found(); run = next_free(walk)) {
    const Granules low = round_up(run.first, alignment);
    if (low + count > run.end()) {
      continue;
    }
    const Granules slack = run.count - count;
    if (weigh(low, slack)) {
      const Granules high = round_down(std::min(next_stretch(run), run.end() - count), alignment);
      if (high > low) {
        weigh(high, slack);
      }
    }
    if (best_clean == Granules{0} && best_slack == Granules{0}) {
      break;
    }
  }
  return best;
}

Granules FreeRuns::tail(Tail kind, Granules from, Granules to) const {
  const PageStates& states = pages_.states();
  const std::uint8_t mask = kind == Tail::kFree ? kUsed : kUsed | kDirty;
  while (to > from && (states.at(to - Granules{1}) & mask) == 0) {
    const bool word = to % kWord == Granules{0} && to - from >= kWord &&
                      (states.eight(to - kWord) & (kEveryByte * mask)) == 0;
    to -= word ? kWord : Granules{1};
  }
  return to;
}

void FreeRuns::note_free(Granules first, Granules count, bool clean) const {
  if (!chunks_.kept()) {
    return;
  }
  // Not kDirty: a walk would give the memory back, and the granules with it, before the release has
  // come to them. To be passed as clean or looked at as free does a block no harm.
  chunks_.set(clean ? Kind::kClean : Kind::kFree, first, count);
}

void FreeRuns::note_claimed(Granules first, Granules count) const {
  if (!chunks_.kept()) {
    return;
  }
  chunks_.clear(Kind::kFree, first, count);
  chunks_.clear(Kind::kClean, first, count);
  chunks_.clear(Kind::kDirty, first, count);
}

void FreeRuns::note_clean(Granules first, Granules count) const {
  if (!chunks_.kept()) {
    return;
  }
  chunks_.clear(Kind::kDirty, first, count);
  chunks_.set(Kind::kClean, first, count);
}

bool FreeRuns::valid(Granules granules) const {
  for (std::uint64_t chunk = 0; chunks_.kept() && chunk < granules / FreeChunks::kChunk; ++chunk) {
    for (Granules i; i < FreeChunks::kChunk; ++i) {
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
