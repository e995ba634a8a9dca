// See symbolic.h. Cold.
#include "src/learn/symbolic.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <queue>

#include "src/base/tuning.h"
#include "src/learn/find_period.h"
#include "src/learn/lifetimes.h"

namespace memo {
namespace {

constexpr std::size_t kMinShapes = 3;

using Samples = std::vector<std::uint64_t>;

bool holds(const SizeRule& rule, std::span<const std::uint64_t> x,
           std::span<const std::uint64_t> sizes) {
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (rule.bytes(x[k]) != sizes[k]) {
      return false;
    }
  }
  return true;
}

// Indices of samples with different x: the least, the greatest, and one between, as far as there
// are.
std::vector<std::size_t> spread(std::span<const std::uint64_t> x) {
  std::vector<std::size_t> order(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    order[k] = k;
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  order.erase(std::unique(order.begin(), order.end(),
                          [&](std::size_t a, std::size_t b) { return x[a] == x[b]; }),
              order.end());
  return order;
}

// True if the first sizes change by the same from each iteration to the next: so do the layers of a
// network that adds channels at each (DenseNet), or the steps of a decoder, which are parts of an
// iteration.
bool steady(std::span<const std::uint64_t> x) {
  for (std::size_t k = 2; k < x.size(); ++k) {
    if (x[k] - x[k - 1] != x[1] - x[0]) {
      return false;
    }
  }
  return true;
}

struct Candidate {
  std::vector<SymbolicStep> steps;
  std::uint64_t bytes = 0;  // of the largest iteration
  std::uint64_t loose = 0;  // of these, elastic or left out
  std::size_t reference = 0;
};

// The rules of the iterations that begin at `first` and every `length` calls after it.
std::optional<Candidate> fit(std::span<const Allocation> stream, std::size_t first,
                             std::size_t length) {
  const std::size_t all = (stream.size() - first) / length;
  const std::size_t copies = std::min(all, tuning::kMaxSymbolicTries);
  first += (all - copies) * length;
  const auto size = [&](std::size_t copy, std::size_t i) {
    return stream[first + copy * length + i].size;
  };
  Samples x;
  std::size_t largest = 0;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    x.push_back(size(copy, 0));
    largest = x[copy] > x[largest] ? copy : largest;
  }
  if (spread(x).size() < kMinShapes || steady(x)) {
    return std::nullopt;
  }
  const Period period{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(length)};
  const std::vector<Lifetime> lives = lifetimes(stream, period);
  Candidate result;
  result.reference = first + largest * length;
  Samples sizes(copies);
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t copy = 0; copy < copies; ++copy) {
      sizes[copy] = size(copy, i);
    }
    const Allocation& block = stream[result.reference + i];
    SymbolicStep step;
    const auto exact = exact_rule(x, sizes);
    step.rule = exact ? *exact : upper_rule(x, sizes);
    step.elastic = !exact;
    step.site = block.site;
    step.alignment_log2 = block.alignment_log2;
    step.lifetime = lives[i].steps;
    // A block that lives into the next iteration would lie where that one's sizes put others.
    step.planned = !lives[i].cut && step.lifetime != 0 && i + step.lifetime <= length;
    result.bytes += block.size;
    result.loose += step.planned && !step.elastic ? 0 : block.size;
    result.steps.push_back(step);
  }
  return result;
}

}  // namespace

std::optional<SizeRule> exact_rule(std::span<const std::uint64_t> x,
                                   std::span<const std::uint64_t> sizes) {
  const std::vector<std::size_t> shapes = spread(x);
  if (x.size() < 2 || shapes.empty()) {
    return std::nullopt;
  }
  const auto at = [&](std::size_t k) { return static_cast<double>(x[k]); };
  const auto y = [&](std::size_t k) { return static_cast<double>(sizes[k]); };
  const std::size_t low = shapes.front();
  const std::size_t high = shapes.back();
  SizeRule rule;
  rule.constant = y(low);
  rule.x0 = at(low);
  rule.x1 = at(high);
  if (holds(rule, x, sizes)) {
    return rule;
  }
  if (shapes.size() >= kMinShapes) {
    rule.slope = (y(high) - y(low)) / (at(high) - at(low));
    if (holds(rule, x, sizes)) {
      return rule;
    }
  }
  if (shapes.size() > kMinShapes) {
    const std::size_t middle = shapes[shapes.size() / 2];
    const double first = (y(middle) - y(low)) / (at(middle) - at(low));
    rule.curve = (rule.slope - first) / (at(high) - at(middle));
    if (holds(rule, x, sizes)) {
      return rule;
    }
  }
  return std::nullopt;
}

SizeRule upper_rule(std::span<const std::uint64_t> x, std::span<const std::uint64_t> sizes) {
  SizeRule level;
  SizeRule line;
  for (std::size_t k = 0; k < x.size(); ++k) {
    level.constant = std::max(level.constant, static_cast<double>(sizes[k]));
    line.slope = std::max(line.slope, static_cast<double>(sizes[k]) / static_cast<double>(x[k]));
  }
  double excess = 0;
  for (const std::uint64_t first : x) {
    excess += level.constant - line.slope * static_cast<double>(first);
  }
  line.constant = 0.5;  // rounded up, never down
  return excess > 0 ? line : level;
}

std::optional<SymbolicInput> symbolic_input(std::span<const Allocation> stream) {
  const std::optional<Period> period = find_period_of_sites(stream);
  if (!period || period->length < tuning::kMinSymbolicCalls) {
    return std::nullopt;
  }
  const std::size_t length = period->length;
  const auto cycle = stream.subspan(period->first, length);
  const std::vector<std::uint64_t> floor = floors(cycle, lifetimes(stream, *period));
  const std::uint64_t least = *std::min_element(floor.begin(), floor.end());
  std::uint64_t largest = 0;
  for (const Allocation& block : cycle) {
    largest = std::max(largest, block.size);
  }
  std::optional<Candidate> best;
  std::size_t beginning = 0;
  std::size_t tried = 0;
  for (std::size_t i = 0; i < length && tried < tuning::kMaxSymbolicTries; ++i) {
    if (floor[i] > least + largest / 2 || period->first + i + kMinShapes * length > stream.size()) {
      continue;
    }
    ++tried;
    std::optional<Candidate> candidate = fit(stream, period->first + i, length);
    if (candidate && (!best || candidate->loose < best->loose)) {
      best = std::move(candidate);
      beginning = period->first + i;
    }
    if (best && best->loose == 0) {
      break;
    }
  }
  if (!best || best->loose > best->bytes / tuning::kLoose) {
    return std::nullopt;
  }
  const Period chosen{static_cast<std::uint32_t>(beginning), period->length};
  return SymbolicInput{chosen, std::move(best->steps), best->reference};
}

// Neighbours suffice: two blocks with a third between them while all live are kept apart by it, and
// a block between two others was a neighbour of each when the later of them was born.
std::vector<Support> supports(const dsa::Problem& problem, const dsa::Plan& plan,
                              std::span<const std::uint32_t> step_of, std::uint64_t* looks) {
  std::vector<std::size_t> births(problem.buffers.size());
  for (std::size_t i = 0; i < births.size(); ++i) {
    births[i] = i;
  }
  std::stable_sort(births.begin(), births.end(), [&](std::size_t a, std::size_t b) {
    return problem.buffers[a].lower < problem.buffers[b].lower;
  });
  struct Pair {
    std::size_t above;
    std::size_t below;
  };
  std::vector<Pair> pairs;
  std::map<dsa::Offset, std::size_t> alive;
  // Each buffer is put in and taken out once: the next to die is at the top of a heap.
  std::uint64_t looked = 0;
  const auto upper = [&](std::size_t buffer) {
    ++looked;
    return problem.buffers[buffer].upper;
  };
  const auto dies_later = [&](std::size_t a, std::size_t b) { return upper(a) > upper(b); };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(dies_later)> deaths(
      dies_later);
  for (const std::size_t born : births) {
    while (!deaths.empty() && upper(deaths.top()) <= problem.buffers[born].lower) {
      alive.erase(plan.offsets[deaths.top()]);
      deaths.pop();
    }
    deaths.push(born);
    const auto here = alive.emplace(plan.offsets[born], born).first;
    if (here != alive.begin()) {
      pairs.push_back({born, std::prev(here)->second});
    }
    if (std::next(here) != alive.end()) {
      pairs.push_back({std::next(here)->second, born});
    }
  }
  if (looks != nullptr) {
    *looks = looked;
  }
  // A supporting block lies lower: by address every block comes after those it lies on.
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Pair& a, const Pair& b) {
    return plan.offsets[a.above] < plan.offsets[b.above];
  });
  std::vector<Support> result;
  result.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    result.push_back({StepIndex{step_of[pair.above]}, StepIndex{step_of[pair.below]}});
  }
  return result;
}

}  // namespace memo
