// From one period of a stream to the planning problem. Pure and cold. Time runs round: a block born
// in one iteration and freed in the next occupies its place at both ends of the period.
//
//   one period  |  aaaaaaa          |      a: dies within the iteration
//               |bbbb         bbbbbb|      b: wraps; planned over the whole period with a gap
//               |ccccccccccccccccccc|...   c: longer than a period; the period is unrolled, so that
//                                             each iteration's c has a place of its own
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dsa/problem.h"
#include "src/follow/steps.h"
#include "src/learn/period.h"
#include "src/trace/event.h"

namespace memo {

// What the latest copies of one position in the period have in common.
struct Lifetime {
  std::uint32_t steps = 0;  // longest life seen, in allocations; 0: never seen to die, or lives
                            // longer than kMaxUnroll periods
  bool regular = true;      // all copies seen agree
  bool cut = false;         // one was cut: a plan would hold its first size for its whole life
};

// The lifetimes of the period's positions, from the latest dead copies of each (three; more of
// short periods, up to 128 blocks): older ones may be odd.
std::vector<Lifetime> lifetimes(std::span<const Allocation> stream, const Period& period);

// Bytes alive (as asked for, planned positions only) just before each step of a cycle of `length`
// positions, after the frees that precede it. Allocation i is the stream's first + i.
std::vector<std::uint64_t> floors(std::span<const Allocation> cycle,
                                  std::span<const Lifetime> lives);

struct PlanInput {
  Period period;                       // with its unroll set
  dsa::Problem problem;                // planned steps only; time 0 is the period's first step
  std::vector<std::uint32_t> step_of;  // buffer -> step in [0, length * unroll)
  std::vector<Lifetime> lives;         // of the period's positions; steps 0: not planned
  std::uint64_t lower_bound = 0;       // greatest sum of planned bytes alive at once, as asked for
  std::uint32_t wrapping = 0;          // buffers whose lifetime wraps round
};

PlanInput plan_input(std::span<const Allocation> stream, const Period& period);

// The same problem, its buffers in the same order, from a schedule whose planned steps tell their
// lifetimes.
dsa::Problem problem_of(std::span<const Step> cycle);

}  // namespace memo
