// See lifetimes.h. Cold.
#include "src/learn/lifetimes.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "src/base/check.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/follow/steps.h"

namespace memo {
namespace {

// Another thread may free the block, and so enter its death, or cut it while we look.
std::uint32_t death_of(const Allocation& block) {
  return std::atomic_ref(const_cast<std::uint32_t&>(block.death)).load(std::memory_order_relaxed);
}

bool is_cut(const Allocation& block) {
  return std::atomic_ref(const_cast<bool&>(block.cut)).load(std::memory_order_relaxed);
}

Lifetime lifetime_of(std::span<const Allocation> stream, std::size_t earliest, std::size_t latest,
                     std::size_t length) {
  Lifetime life;
  std::size_t dead = 0;
  std::size_t oldest_living = stream.size();
  const std::size_t enough = std::max(tuning::kMinCopies, tuning::kMinLifetimes / length);
  std::size_t birth = latest;
  for (std::size_t copy = 0; dead < enough && copy < enough + tuning::kMaxUnroll; ++copy) {
    const std::uint32_t death = death_of(stream[birth]);
    life.cut = life.cut || is_cut(stream[birth]);
    const bool first = birth < earliest + length;
    if (death == kAlive) {
      // A weight that was made before the loop may look like a part of its first copy.
      const bool weight = first && dead + 1 >= tuning::kMinCopies;
      oldest_living = weight ? oldest_living : birth;
    } else {
      const auto steps = static_cast<std::uint32_t>(death - birth);
      life.regular = life.regular && (dead == 0 || steps == life.steps);
      life.steps = std::max(life.steps, steps);
      ++dead;
    }
    if (first) {
      break;
    }
    birth -= length;
  }
  const bool overdue = dead > 0 && oldest_living + life.steps < stream.size();
  life.regular = life.regular && !overdue;
  if (life.steps > tuning::kMaxUnroll * length) {
    life.steps = 0;
  }
  return life;
}

// Where calls like the period's begin, less than a period before it: it may begin later, where
// least is alive, and else what died there would count as never seen to die.
std::size_t first_like_it(std::span<const Allocation> stream, const Period& period) {
  std::size_t first = period.first;
  const auto same = [&](const Allocation& a, const Allocation& b) {
    return a.size == b.size && a.alignment_log2 == b.alignment_log2;
  };
  while (first > 0 && period.first - first < period.length - 1 &&
         same(stream[first - 1], stream[first - 1 + period.length])) {
    --first;
  }
  return first;
}

// Adds `bytes` to `steps` consecutive points of a cycle from `start` on; `change` is the difference
// of neighbouring points, its last entry one past the end.
void add_round(std::vector<std::uint64_t>& change, std::size_t start, std::size_t steps,
               std::uint64_t bytes) {
  const std::size_t length = change.size() - 1;
  const std::size_t rounds = steps / length;
  change[0] += rounds * bytes;
  const std::size_t begin = start % length;
  const std::size_t end = begin + steps % length;
  change[begin] += bytes;
  change[std::min(end, length)] -= bytes;
  if (end > length) {
    change[0] += bytes;
    change[end - length] -= bytes;
  }
}

// Turns differences into loads. Unsigned wrap-around cancels out in the sum.
std::vector<std::uint64_t> summed(std::vector<std::uint64_t> change) {
  change.pop_back();
  for (std::size_t i = 1; i < change.size(); ++i) {
    change[i] += change[i - 1];
  }
  return change;
}

std::uint64_t peak(std::span<const Allocation> cycle, std::span<const Lifetime> lives) {
  std::vector<std::uint64_t> change(cycle.size() + 1);
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    add_round(change, i, lives[i].steps, cycle[i].size);
  }
  const std::vector<std::uint64_t> load = summed(std::move(change));
  return *std::max_element(load.begin(), load.end());
}

// A block of the cycle [0, end); Block is an Allocation or a Step.
template <typename Block>
dsa::Buffer buffer(const Block& block, dsa::Time birth, dsa::Time steps, dsa::Time end) {
  dsa::Buffer result;
  const Granules granules = std::max(Granules{1}, granules_of(block.size));
  result.size = static_cast<dsa::Bytes>(bytes_of(granules));
  result.alignment = std::max<dsa::Bytes>(kGranule, dsa::Bytes{1} << block.alignment_log2);
  const dsa::Time death = birth + steps;
  if (death <= end) {
    result.lower = birth;
    result.upper = death;
    return result;
  }
  MEMO_DCHECK(birth < end);
  result.lower = 0;
  result.upper = end;
  if (death - end < birth) {
    result.gaps.push_back({death - end, birth});
  }
  return result;
}

}  // namespace

std::vector<Lifetime> lifetimes(std::span<const Allocation> stream, const Period& period) {
  MEMO_DCHECK(period.length != 0 && period.first + period.length <= stream.size());
  std::vector<Lifetime> lives;
  lives.reserve(period.length);
  const std::size_t first = first_like_it(stream, period);
  for (std::size_t i = 0; i < period.length; ++i) {
    const std::size_t begins = period.first + i;
    const std::size_t earliest = begins - (begins - first < period.length ? 0 : period.length);
    const std::size_t copies = (stream.size() - 1 - earliest) / period.length;
    lives.push_back(
        lifetime_of(stream, earliest, earliest + copies * period.length, period.length));
  }
  return lives;
}

std::vector<std::uint64_t> floors(std::span<const Allocation> cycle,
                                  std::span<const Lifetime> lives) {
  std::vector<std::uint64_t> change(cycle.size() + 1);
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (lives[i].steps > 1) {
      add_round(change, i + 1, lives[i].steps - 1, cycle[i].size);
    }
  }
  return summed(std::move(change));
}

PlanInput plan_input(std::span<const Allocation> stream, const Period& period) {
  PlanInput input;
  input.period = period;
  input.lives = lifetimes(stream, period);
  std::vector<Lifetime>& lives = input.lives;
  const auto cycle = stream.subspan(period.first, period.length);
  std::uint32_t longest = 1;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].cut || cycle[i].size > kMaxBlock || cycle[i].alignment_log2 > 46) {
      lives[i].steps = 0;
    }
    longest = std::max(longest, lives[i].steps);
  }
  input.period.unroll = (longest + period.length - 1) / period.length;
  const std::uint32_t end = period.length * input.period.unroll;
  for (std::uint32_t step = 0; step < end; ++step) {
    const Lifetime& life = lives[step % period.length];
    if (life.steps == 0) {
      continue;
    }
    input.problem.buffers.push_back(buffer(cycle[step % period.length], step, life.steps, end));
    input.step_of.push_back(step);
    input.wrapping += step + life.steps > end ? 1 : 0;
  }
  MEMO_DCHECK(input.step_of.size() == input.problem.buffers.size());
  input.lower_bound = peak(cycle, lives);
  return input;
}

dsa::Problem problem_of(std::span<const Step> cycle) {
  dsa::Problem problem;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    if (cycle[i].offset != kUnplanned) {
      problem.buffers.push_back(buffer(cycle[i], static_cast<dsa::Time>(i), cycle[i].lifetime,
                                       static_cast<dsa::Time>(cycle.size())));
    }
  }
  return problem;
}

}  // namespace memo
