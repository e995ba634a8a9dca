// Problems that the planner's benchmark generates, of any number of buffers, all from a seed. Cold.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "dsa/problem.h"

namespace bench {

using Random = std::mt19937_64;

inline double unit(Random& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

inline std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

// Of the distribution whose logarithm is normal, with the median e^mean.
inline double log_normal(Random& random, double mean, double deviation) {
  constexpr double kTurn = 6.283185307179586;
  const double radius = std::sqrt(-2 * std::log(1 - unit(random)));
  return std::exp(mean + deviation * radius * std::cos(kTurn * unit(random)));
}

// Cuts a rectangle by straight cuts of one piece each until there are enough: the bound is the
// optimum. `flat` is the share of cuts across time. Requires that there is room for that many.
inline dsa::Problem guillotine(std::size_t pieces, std::uint64_t seed, double flat = 0.5,
                               dsa::Time horizon = 1000000000, dsa::Bytes height = 1000000000) {
  Random random(seed);
  dsa::Problem problem{{{.lower = 0, .upper = horizon, .size = height}}};
  while (problem.buffers.size() < pieces) {
    dsa::Buffer& piece = problem.buffers[random() % problem.buffers.size()];
    dsa::Buffer other = piece;
    if (unit(random) >= flat && piece.upper - piece.lower > 1) {
      piece.upper = other.lower = between(random, piece.lower + 1, piece.upper - 1);
    } else if (piece.size > 1) {
      piece.size = between(random, 1, piece.size - 1);
      other.size -= piece.size;
    } else {
      continue;
    }
    problem.buffers.push_back(other);
  }
  return problem;
}

// Cuts a rectangle into wheels: four pieces round a fifth, which no straight cut takes apart, again
// and again in one of the pieces. The bound is the optimum.
//
//   size  +-----+-----------+
//         |     |   3       |
//         |  4  +------+----+
//         |     |  5   |    |
//         +-----+------+  2 |
//         |    1       |    |
//         +------------+----+  time
inline dsa::Problem wheels(std::size_t pieces, std::uint64_t seed, dsa::Time horizon = 1000000000,
                           dsa::Bytes height = 1000000000) {
  struct Piece {
    dsa::Time lower, upper;
    dsa::Bytes bottom, top;
  };
  Random random(seed);
  std::vector<Piece> found{{0, horizon, 0, height}};
  while (found.size() + 4 <= pieces) {
    const Piece piece = found[random() % found.size()];
    if (piece.upper - piece.lower < 3 || piece.top - piece.bottom < 3) {
      continue;
    }
    const dsa::Time first = between(random, piece.lower + 1, piece.upper - 2);
    const dsa::Time last = between(random, first + 1, piece.upper - 1);
    const dsa::Bytes low = between(random, piece.bottom + 1, piece.top - 2);
    const dsa::Bytes high = between(random, low + 1, piece.top - 1);
    const auto taken = std::find_if(found.begin(), found.end(), [&](const Piece& other) {
      return other.lower == piece.lower && other.bottom == piece.bottom;
    });
    *taken = {first, last, low, high};
    found.push_back({piece.lower, last, piece.bottom, low});
    found.push_back({last, piece.upper, piece.bottom, high});
    found.push_back({first, piece.upper, high, piece.top});
    found.push_back({piece.lower, first, low, piece.top});
  }
  dsa::Problem problem;
  for (const Piece& piece : found) {
    problem.buffers.push_back(
        {.lower = piece.lower, .upper = piece.upper, .size = piece.top - piece.bottom});
  }
  return problem;
}

// One period of a loop: births one after another, lives up to a tenth of the period; those that
// reach beyond its end go on at its beginning, as a lifetime with a gap.
inline dsa::Problem wrapped(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  dsa::Problem problem;
  const auto period = static_cast<dsa::Time>(count);
  for (dsa::Time birth = 0; birth < period; ++birth) {
    const dsa::Time end = birth + between(random, 1, std::max<dsa::Time>(period / 10, 1));
    dsa::Buffer buffer{.lower = birth, .upper = end, .size = 64 * between(random, 1, 1 << 14)};
    if (end > period && end - period < birth) {
      buffer.lower = 0;
      buffer.upper = period;
      buffer.gaps = {{end - period, birth}};
    }
    problem.buffers.push_back(buffer);
  }
  return problem;
}

// Like the life of a large program: many short-lived buffers of log-uniform size, few long-lived
// ones.
inline dsa::Problem lives(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  dsa::Problem problem;
  for (std::size_t i = 0; i < count; ++i) {
    const auto lower = static_cast<dsa::Time>(i);
    const double length = std::exp(unit(random) * unit(random) * std::log(20000.0));
    const double size = std::exp(std::log(64.0) + unit(random) * std::log(1e6));
    problem.buffers.push_back({.lower = lower,
                               .upper = lower + 1 + static_cast<dsa::Time>(length),
                               .size = static_cast<dsa::Bytes>(size)});
  }
  return problem;
}

// Births, lengths of life up to `longest` births, and sizes, all uniform.
inline dsa::Problem uniform(std::size_t count, std::int64_t longest, std::uint64_t seed) {
  Random random(seed);
  dsa::Problem problem;
  for (std::size_t i = 0; i < count; ++i) {
    const dsa::Time lower = between(random, 0, static_cast<std::int64_t>(count));
    problem.buffers.push_back({.lower = lower,
                               .upper = lower + between(random, 1, longest),
                               .size = between(random, 1, 1 << 20)});
  }
  return problem;
}

// Sizes and lengths of life are log-normal; sizes in whole cache lines, as allocators round them.
inline dsa::Problem log_normal_lives(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  dsa::Problem problem;
  for (std::size_t i = 0; i < count; ++i) {
    const dsa::Time lower = between(random, 0, static_cast<std::int64_t>(count));
    const auto length = static_cast<dsa::Time>(log_normal(random, std::log(100.0), 1.5));
    const auto size = static_cast<dsa::Bytes>(log_normal(random, std::log(65536.0), 2));
    problem.buffers.push_back(
        {.lower = lower, .upper = lower + 1 + length, .size = (size / 64 + 1) * 64});
  }
  return problem;
}

// A network's training again and again: weights that stay, activations that a forward pass makes
// and the backward pass consumes in reverse, short workspaces beside both, shapes that vary.
inline dsa::Problem iterations(std::size_t count, std::size_t layers, std::uint64_t seed) {
  Random random(seed);
  std::vector<dsa::Bytes> shape;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    shape.push_back((static_cast<dsa::Bytes>(log_normal(random, 12, 1)) / 64 + 1) * 64);
  }
  dsa::Problem problem;
  dsa::Time start = 0;
  while (problem.buffers.size() < count) {
    const auto length = static_cast<dsa::Time>(2 * layers);
    const std::int64_t batch = between(random, 1, 32);
    for (std::size_t layer = 0; layer < layers && problem.buffers.size() < count; ++layer) {
      const dsa::Time forward = start + static_cast<dsa::Time>(layer);
      const dsa::Time backward = start + length - 1 - static_cast<dsa::Time>(layer);
      const dsa::Bytes size = shape[layer] * batch;
      problem.buffers.push_back({.lower = forward, .upper = backward + 1, .size = size});
      problem.buffers.push_back(
          {.lower = forward, .upper = forward + 1, .size = size / between(random, 1, 4) + 64});
      problem.buffers.push_back({.lower = backward, .upper = backward + 2, .size = size});
      problem.buffers.push_back({.lower = backward,
                                 .upper = backward + between(random, 1, 3),
                                 .size = shape[layer] * between(random, 1, 4)});
    }
    start += length;
  }
  problem.buffers.resize(count);
  for (std::size_t layer = 0; layer < layers && layer < count; ++layer) {
    problem.buffers[layer * (count / layers)] = {
        .lower = 0, .upper = start + 2, .size = shape[layer] * 8};
  }
  return problem;
}

}  // namespace bench
