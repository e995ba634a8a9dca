#include "src/cli/report/report_problem.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "dsa/planner.h"
#include "dsa/validate.h"

namespace memo::cli {
namespace {

using Buffers = std::vector<dsa::Buffer>;

// The parts of a buffer's life: what is between its gaps.
std::vector<dsa::Interval> alive(const dsa::Buffer& buffer) {
  std::vector<dsa::Interval> parts;
  dsa::Time from = buffer.lower;
  for (const dsa::Interval& gap : buffer.gaps) {
    parts.push_back({from, gap.lower});
    from = gap.upper;
  }
  parts.push_back({from, buffer.upper});
  std::erase_if(parts, [](const dsa::Interval& part) { return part.lower >= part.upper; });
  return parts;
}

template <typename Visit>
void for_each_time(Buffers& buffers, Visit visit) {
  for (dsa::Buffer& buffer : buffers) {
    visit(buffer.lower);
    visit(buffer.upper);
    for (dsa::Interval& gap : buffer.gaps) {
      visit(gap.lower);
      visit(gap.upper);
    }
  }
}

// Each time becomes its rank among all of them. Which buffers are alive together stays the same.
void rank_times(Buffers& buffers) {
  std::vector<dsa::Time> times;
  for_each_time(buffers, [&](dsa::Time time) { times.push_back(time); });
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  for_each_time(buffers, [&](dsa::Time& time) {
    time = std::lower_bound(times.begin(), times.end(), time) - times.begin();
  });
}

// Greatest sum of the buffers alive, in each of equal parts of [first, first + steps).
std::vector<std::uint64_t> live_bytes(const Buffers& buffers, dsa::Time first, dsa::Time steps) {
  std::map<dsa::Time, dsa::Bytes> changes = {{first, 0}, {first + steps, 0}};
  for (const dsa::Buffer& buffer : buffers) {
    for (const dsa::Interval& part : alive(buffer)) {
      changes[part.lower] += buffer.size;
      changes[part.upper] -= buffer.size;
    }
  }
  const dsa::Time most = kLiveParts;
  const dsa::Time width = (steps - 1) / most + 1;
  std::vector<std::uint64_t> live(static_cast<std::size_t>((steps - 1) / width + 1));
  const auto part_of = [&](dsa::Time time) {
    return static_cast<std::size_t>((time - first) / width);
  };
  dsa::Bytes now = 0;
  for (auto at = changes.begin(); std::next(at) != changes.end(); ++at) {
    now += at->second;
    const std::size_t last = part_of(std::next(at)->first - 1);
    for (std::size_t part = part_of(at->first); part <= last; ++part) {
      live[part] = std::max(live[part], static_cast<std::uint64_t>(now));
    }
  }
  return live;
}

// The offsets that the file gives, if it gives all of them.
std::optional<dsa::Plan> given_plan(const Buffers& buffers) {
  dsa::Plan plan;
  for (const dsa::Buffer& buffer : buffers) {
    if (!buffer.fixed) {
      return std::nullopt;
    }
    plan.offsets.push_back(*buffer.fixed);
    plan.height = std::max(plan.height, *buffer.fixed + buffer.size);
  }
  return plan;
}

void add_blocks(const dsa::Buffer& buffer, std::size_t number, dsa::Offset offset, dsa::Time first,
                ThreadMap& map) {
  // One gap is drawn as such; a buffer with more of them is drawn as what is between.
  std::vector<dsa::Interval> parts = {{buffer.lower, buffer.upper}};
  MapBlock block;
  if (buffer.gaps.size() == 1) {
    block.gap = {buffer.gaps[0].lower - first, buffer.gaps[0].upper - first};
  } else {
    parts = alive(buffer);
  }
  block.size = static_cast<std::uint64_t>(buffer.size);
  block.offset = static_cast<std::uint64_t>(offset);
  block.site = number;
  for (const dsa::Interval& part : parts) {
    block.lower = part.lower - first;
    block.upper = part.upper - first;
    map.blocks.push_back(block);
  }
}

}  // namespace

bool begins_like_problem(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line.find("lower") != std::string::npos && line.find("upper") != std::string::npos;
}

ThreadMap map_of(const dsa::CsvTable& table, const ModelOptions& options, std::string& error) {
  // The page keeps a number for each step, and a difference of two times may have no number at all.
  constexpr std::uint64_t kMostSteps = 1'000'000;
  Buffers buffers = table.problem.buffers;
  ThreadMap map;
  std::optional<dsa::Plan> plan = given_plan(buffers);
  dsa::Problem free = table.problem;
  if (plan) {
    // The bound is what any plan needs, not what this one takes.
    for (dsa::Buffer& buffer : free.buffers) {
      buffer.fixed.reset();
    }
    const dsa::Verdict verdict = dsa::validate(table.problem, *plan);
    error = verdict ? ""
                    : "the offsets are no plan: " + verdict.reason + ", buffers " +
                          table.ids[verdict.i] + " and " + table.ids[verdict.j];
  } else {
    plan = plan_within(table.problem, options);
    error = plan ? "" : "no plan was found that keeps the offsets that are given";
  }
  if (!error.empty() || buffers.empty()) {
    return map;
  }
  dsa::Time first = buffers.front().lower;
  dsa::Time last = buffers.front().upper;
  for (const dsa::Buffer& buffer : buffers) {
    first = std::min(first, buffer.lower);
    last = std::max(last, buffer.upper);
    map.bytes += static_cast<std::uint64_t>(buffer.size);
  }
  map.allocations = buffers.size();
  if (static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first) > kMostSteps) {
    rank_times(buffers);
    map.ranked = true;
    first = 0;
    last = 0;
    for_each_time(buffers, [&](dsa::Time time) { last = std::max(last, time); });
  }
  map.steps = last - first;
  map.lower_bound = static_cast<std::uint64_t>(dsa::lower_bound(free));
  map.height = static_cast<std::uint64_t>(plan->height);
  map.live = live_bytes(buffers, first, map.steps);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    add_blocks(buffers[i], i, plan->offsets[i], first, map);
  }
  return map;
}

}  // namespace memo::cli
