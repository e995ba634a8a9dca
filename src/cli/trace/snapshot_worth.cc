// See snapshot_worth.h. Cold.
#include "src/cli/trace/snapshot_worth.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "dsa/planner.h"
#include "src/cli/trace/heap_map.h"
#include "src/learn/find_period.h"
#include "src/learn/lifetimes.h"

namespace memo::cli {
namespace {

// Height of a plan that is made in a second, or by one pass of a fast planner.
std::uint64_t height_of(const dsa::Problem& problem) {
  dsa::Options limits;
  limits.seconds = 1;
  dsa::Outcome outcome = dsa::plan(problem, limits);
  if (!outcome.plan) {
    outcome = dsa::find_planner("skyline")->run(problem, {});
  }
  return outcome.plan ? static_cast<std::uint64_t>(outcome.plan->height) : UINT64_MAX;
}

// The device's allocations in order, with their deaths; `blocks`: which block each is.
std::vector<Allocation> stream_of(const SnapshotDevice& device,
                                  std::vector<std::uint32_t>& blocks) {
  std::vector<Allocation> stream;
  std::map<std::uint32_t, std::uint32_t> alive;  // block -> allocation
  for (const SnapshotEvent& event : device.events) {
    if (!event.is_free) {
      alive[event.block] = static_cast<std::uint32_t>(stream.size());
      stream.push_back({.size = device.blocks[event.block].size});
      blocks.push_back(event.block);
    } else if (const auto found = alive.find(event.block); found != alive.end()) {
      stream[found->second].death = static_cast<std::uint32_t>(stream.size());
      alive.erase(found);
    }
  }
  std::erase_if(stream, [](const Allocation& one) { return one.size == 0; });
  return stream;
}

// Most bytes alive at once, from the loop's begin on, of blocks that its plan does not place.
std::uint64_t beside(const SnapshotDevice& device, const std::vector<std::uint32_t>& blocks,
                     const PlanInput& input) {
  std::set<std::uint32_t> placed;
  for (std::size_t i = input.period.first; i < blocks.size(); ++i) {
    if (input.lives[(i - input.period.first) % input.period.length].steps != 0) {
      placed.insert(blocks[i]);
    }
  }
  std::uint64_t now = 0;
  for (std::uint32_t i = 0; i < device.before; ++i) {
    now += device.blocks[i].size;
  }
  std::uint64_t most = 0;
  std::uint32_t calls = 0;
  for (const SnapshotEvent& event : device.events) {
    calls += event.is_free ? 0 : 1;
    if (!placed.contains(event.block)) {
      const std::uint64_t size = device.blocks[event.block].size;
      now = event.is_free ? now - size : now + size;
    }
    most = calls > input.period.first ? std::max(most, now) : most;
  }
  return most;
}

void weigh_iteration(const SnapshotDevice& device, SnapshotWorth& worth) {
  std::vector<std::uint32_t> blocks;
  const std::vector<Allocation> stream = stream_of(device, blocks);
  const std::optional<Period> period =
      stream.size() == blocks.size() ? find_period(stream) : std::nullopt;
  if (!period) {
    return;
  }
  const PlanInput input = plan_input(stream, *period);
  if (input.problem.buffers.empty()) {
    return;
  }
  worth.calls = period->length;
  worth.iterations = (stream.size() - period->first) / period->length;
  worth.by_iteration = height_of(input.problem) + beside(device, blocks, input);
}

std::string human(std::uint64_t bytes) {
  return human_bytes(static_cast<dsa::Bytes>(bytes));
}

std::string less(std::uint64_t bytes, std::uint64_t reserved) {
  return human(bytes) + (bytes < reserved ? ", " + human(reserved - bytes) + " less" : ", no less");
}

}  // namespace

SnapshotWorth worth_of(const SnapshotDevice& device, std::uint64_t height) {
  SnapshotWorth worth;
  worth.reserved = device.reserved;
  worth.alive = device.alive;
  worth.height = height;
  std::map<std::uint64_t, dsa::Problem> problems;
  const dsa::CsvTable all = snapshot_problem(device);
  for (std::size_t i = 0; i < device.blocks.size(); ++i) {
    problems[device.blocks[i].stream].buffers.push_back(all.problem.buffers[i]);
  }
  worth.streams = problems.size();
  for (const auto& [stream, problem] : problems) {
    worth.by_stream += problems.size() == 1 ? height : height_of(problem);
  }
  weigh_iteration(device, worth);
  return worth;
}

SnapshotWorth worth_of(const SnapshotDevice& device) {
  return worth_of(device, height_of(snapshot_problem(device).problem));
}

std::string worth_sentence(const SnapshotWorth& worth) {
  std::string text = worth.height < worth.reserved
                         ? "a plan saves " + human(worth.reserved - worth.height) + " of the " +
                               human(worth.reserved) + " reserved, and needs " +
                               human(sub_sat(worth.height, worth.alive)) + " more than is alive"
                         : "a plan saves nothing of the " + human(worth.reserved) + " reserved";
  if (worth.streams > 1) {
    text += "; with each of " + std::to_string(worth.streams) + " streams apart it needs " +
            less(worth.by_stream, worth.reserved);
  }
  if (worth.calls != 0) {
    text += "; one plan for all " + std::to_string(worth.iterations) + " iterations of " +
            std::to_string(worth.calls) + " calls needs " +
            less(worth.by_iteration, worth.reserved);
  } else {
    text += "; it does not repeat";
  }
  return text;
}

}  // namespace memo::cli
