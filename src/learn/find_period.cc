// See find_period.h. Cold.
#include "src/learn/find_period.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "src/base/loop.h"
#include "src/base/tuning.h"
#include "src/learn/lifetimes.h"

namespace memo {
namespace {

using Tokens = std::vector<std::uint64_t>;

std::uint64_t token(const Allocation& allocation) {
  return allocation.size * 64 + allocation.alignment_log2;
}

std::uint64_t site_token(const Allocation& allocation) {
  return allocation.site * 64 + allocation.alignment_log2;
}

Tokens tokens(std::span<const Allocation> stream, std::uint64_t (*token_of)(const Allocation&)) {
  Tokens result;
  result.reserve(stream.size());
  for (const Allocation& allocation : stream) {
    result.push_back(token_of(allocation));
  }
  return result;
}

// runs[p]: how many of the last tokens equal the one p before them.
// Source: the Z function (Gusfield, Algorithms on Strings, 1.4) of the stream read backwards.
std::vector<std::uint32_t> runs_at_end(const Tokens& stream) {
  const std::size_t n = stream.size();
  std::vector<std::uint32_t> runs(n, 0);
  const auto back = [&](std::size_t i) { return stream[n - 1 - i]; };
  std::size_t left = 0;
  std::size_t right = 0;
  for (std::size_t p = 1; p < n; ++p) {
    std::size_t run = p < right ? std::min<std::size_t>(runs[p - left], right - p) : 0;
    while (p + run < n && back(run) == back(p + run)) {
      ++run;
    }
    runs[p] = static_cast<std::uint32_t>(run);
    if (p + run > right) {
      left = p;
      right = p + run;
    }
  }
  return runs;
}

// The longest earlier run at this shift through the same loop (the same tokens, at any phase) that
// broke.
std::size_t longest_broken_run(const Tokens& stream, std::size_t shift, std::size_t run) {
  const auto mixed = [&](std::size_t i) { return (stream[i] + 1) * 0x9E3779B97F4A7C15ULL; };
  std::uint64_t now = 0;
  for (std::size_t i = stream.size() - shift; i < stream.size(); ++i) {
    now += mixed(i);
  }
  std::uint64_t window = 0;
  std::size_t current = 0;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < stream.size() - run; ++i) {
    const bool equal = i >= shift && stream[i] == stream[i - shift];
    if (!equal) {
      if (current >= shift && window == now) {
        longest = std::max(longest, current);
      }
      current = 0;
    }
    current += equal ? 1 : 0;
    window += mixed(i) - (i >= shift ? mixed(i - shift) : 0);
  }
  return longest;
}

// Fewest calls that must have matched at shift p, whatever the blocks say.
std::size_t least_run(const std::vector<std::uint32_t>& runs, std::size_t p) {
  for (std::size_t part = 1; part < tuning::kFew; ++part) {
    if (p % part == 0 && (p == part || runs[part] >= p)) {
      // Short itself, or a short loop taken several times.
      return std::max(2 * p, std::size_t{tuning::kConvincingRun} / 4);
    }
  }
  return std::max<std::size_t>(2 * p, tuning::kMinMatchedCalls);
}

// True if at least a third of the last p calls belong to shorter loops that begin and end within
// them. Parts of an iteration hardly have such parts of their own; iterations of layered networks
// do.
bool has_inner_loops(const Tokens& stream, const std::vector<std::uint32_t>& runs, std::size_t p) {
  const std::size_t start = stream.size() - p;
  std::vector<bool> inside(p, false);
  for (std::size_t q = tuning::kFew / 2; q <= std::min(tuning::kMaxLayer, p / 3); ++q) {
    if (runs[q] >= p) {
      continue;  // p is that loop itself, taken several times
    }
    std::size_t run = 0;
    for (std::size_t i = start; i <= stream.size(); ++i) {
      if (i < stream.size() && stream[i] == stream[i - q]) {
        ++run;
        continue;
      }
      if (run >= 2 * q) {
        const std::size_t begin = std::max(start, i - run - q) - start;
        std::fill(inside.begin() + static_cast<std::ptrdiff_t>(begin),
                  inside.begin() + static_cast<std::ptrdiff_t>(i - start), true);
      }
      run = 0;
    }
  }
  return 3 * static_cast<std::size_t>(std::count(inside.begin(), inside.end(), true)) >= p;
}

// Of a period's bytes or its peak: less than what a layer hands to the next, more than a result
// that is kept until the next iteration.
bool is_nothing(std::uint64_t part, std::uint64_t whole) {
  return part <= whole / (4 * tuning::kLittle);
}

// kLeaves: blocks stay for good. kHolds: something is alive at every point of the loop;
// kHoldsLittle: less than layers hand on.
enum class Remains { kUnlike, kLeaves, kHolds, kHoldsLittle, kGood };

// What the blocks of the latest copies say. A part of an iteration leaves blocks behind for the
// rest of it (activations kept for the backward pass), or hands one on from copy to copy (the
// residual), so that the load never comes down to nothing.
Remains judge(std::span<const Allocation> stream, const Period& period) {
  const std::vector<Lifetime> lives = lifetimes(stream, period);
  const auto cycle = stream.subspan(period.first, period.length);
  std::uint64_t all = 0;
  std::uint64_t irregular = 0;
  std::uint64_t staying = 0;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    all += cycle[i].size;
    irregular += lives[i].regular ? 0 : cycle[i].size;
    staying += lives[i].steps == 0 ? cycle[i].size : 0;
  }
  if (irregular > all / tuning::kIrregular || staying > all / 2) {
    return Remains::kUnlike;
  }
  if (!is_nothing(staying, all)) {
    return Remains::kLeaves;
  }
  const std::vector<std::uint64_t> floor = floors(cycle, lives);
  std::uint64_t peak = 0;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    peak = std::max(peak, floor[i] + (lives[i].steps > 0 ? cycle[i].size : 0));
  }
  const std::uint64_t least = *std::min_element(floor.begin(), floor.end());
  if (is_nothing(least, peak)) {
    return Remains::kGood;
  }
  return least <= peak / tuning::kLittle ? Remains::kHoldsLittle : Remains::kHolds;
}

// Moves the beginning to the first point of least load at or after `period.first`.
Period at_floor(std::span<const Allocation> stream, Period period) {
  const std::vector<Lifetime> lives = lifetimes(stream, period);
  const auto floor = floors(stream.subspan(period.first, period.length), lives);
  const auto least = std::min_element(floor.begin(), floor.end()) - floor.begin();
  if (period.first + static_cast<std::size_t>(least) + period.length <= stream.size()) {
    period.first += static_cast<std::uint32_t>(least);
  }
  return period;
}

// `wary`: a loop that has broken before must run twice as long.
std::optional<Period> find(std::span<const Allocation> stream, const Tokens& all,
                           std::uint32_t min_run, bool wary) {
  const std::size_t n = stream.size();
  const std::vector<std::uint32_t> runs = runs_at_end(all);
  std::size_t work = tuning::kPeriodWork * n;  // what looking at candidates may cost
  for (std::size_t p = 1; 3 * p <= n && 3 * p <= work; ++p) {
    const std::uint32_t run = runs[p];
    if (run < 2 * p || run < min_run || run < least_run(runs, p)) {
      continue;
    }
    work -= std::min<std::size_t>(work, 3 * p + 128);
    const Period period{static_cast<std::uint32_t>(n - run - p), static_cast<std::uint32_t>(p), 1};
    const Remains remains = judge(stream, period);
    if (remains == Remains::kUnlike) {
      continue;
    }
    const bool convincing = run >= convincing_run(p);
    const bool whole =
        remains == Remains::kGood ||
        (remains == Remains::kHoldsLittle &&
         run >= std::max(std::size_t{tuning::kConvincingRun} / 2, tuning::kFew * p)) ||
        (remains != Remains::kLeaves && has_inner_loops(all, runs, p));
    if (convincing || (whole && (!wary || run >= 2 * longest_broken_run(all, p, run)))) {
      return at_floor(stream, period);
    }
  }
  return std::nullopt;
}

// Calls that a loop that leaves so much must have run for to be believed.
std::size_t believed_run(Remains remains, std::size_t p) {
  switch (remains) {
    case Remains::kGood:
      return p < tuning::kFew ? std::max(2 * p, std::size_t{tuning::kConvincingRun} / 4)
                              : std::max<std::size_t>(2 * p, tuning::kMinMatchedCalls);
    case Remains::kHoldsLittle:
      return std::min<std::size_t>(
          convincing_run(p), std::max(std::size_t{tuning::kConvincingRun} / 2, tuning::kFew * p));
    default:
      return convincing_run(p);
  }
}

}  // namespace

std::optional<Period> find_period(std::span<const Allocation> stream, std::uint32_t min_run) {
  return find(stream, tokens(stream, token), min_run, true);
}

std::optional<Period> find_period_to_try(std::span<const Allocation> stream, std::uint32_t length,
                                         std::uint32_t copies, std::uint32_t min_run) {
  const std::size_t n = stream.size();
  const std::size_t p = length;
  if (p == 0 || 2 * p > n) {
    return std::nullopt;
  }
  const Tokens all = tokens(stream, token);
  std::size_t run = 0;
  while (run + p < n && all[n - 1 - run] == all[n - 1 - run - p]) {
    ++run;
  }
  const std::size_t least =
      std::max<std::size_t>({std::size_t{copies} * p, tuning::kRepeatContext, min_run});
  if (run < least || run < 2 * longest_broken_run(all, p, run)) {
    return std::nullopt;
  }
  Period period{static_cast<std::uint32_t>(n - run - p), length, 1};
  const Remains remains = judge(stream, period);
  if (remains == Remains::kUnlike || remains == Remains::kLeaves) {
    return std::nullopt;
  }
  const std::size_t believed = believed_run(remains, p);
  period = at_floor(stream, period);
  period.trial = static_cast<std::uint32_t>(std::max(2 * p, believed > run ? believed - run : 0));
  return period;
}

std::optional<Period> find_period_of_sites(std::span<const Allocation> stream) {
  // Calls that depend on the shape break the loop of sites; the sizes prove it
  // (src/learn/symbolic.h).
  return find(stream, tokens(stream, site_token), 0, false);
}

std::optional<Period> find_period_told(std::span<const Allocation> stream,
                                       std::span<const std::uint32_t> marks) {
  const auto same = [&](std::size_t i, std::size_t j) {
    return token(stream[i]) == token(stream[j]);
  };
  for (std::size_t group = 1; group <= tuning::kMaxUnroll && 2 * group < marks.size(); ++group) {
    const std::size_t end = marks[marks.size() - 1];
    const std::size_t length = end - marks[marks.size() - 1 - group];
    if (end > stream.size() || length == 0 || 2 * length > end ||
        marks[marks.size() - 1 - 2 * group] != end - 2 * length) {
      continue;
    }
    std::size_t i = stream.size();
    while (i > length && same(i - 1, i - 1 - length)) {
      --i;
    }
    // i is where the equal run begins; the period's first copy begins one length earlier.
    if (i + length > end) {
      continue;
    }
    std::size_t first = end - 2 * length;
    while (first >= length && first >= i) {
      first -= length;
    }
    return Period{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(length), 1};
  }
  return std::nullopt;
}

}  // namespace memo
