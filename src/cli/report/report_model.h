// What a report shows of each thread: one iteration's blocks with their planned places and, beside
// them, the places that glibc gave the same blocks; or of a planner's problem, its buffers. Cold.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsa/problem.h"
#include "src/cli/trace/trace_reader.h"
#include "src/learn/period.h"

namespace memo::cli {

constexpr std::size_t kLiveParts = 2000;  // of the time axis, for the curve of live bytes

struct MapBlock {
  std::uint32_t allocation = 0;  // index in the thread's stream of the copy that is shown
  dsa::Time lower = 0;           // steps since the iteration's begin; see dsa::Buffer
  dsa::Time upper = 0;
  std::optional<dsa::Interval> gap;  // a block that wraps round is dead in the middle
  std::uint64_t size = 0;            // bytes asked for
  std::uint64_t offset = 0;          // planned, bytes from the slab's start
  std::uint64_t site = 0;
  Op op = Op::k_malloc;
  std::optional<std::uint64_t> elsewhere;  // bytes from the start of glibc's compressed layout
};

struct ThreadMap {
  std::uint32_t thread = 0;
  std::uint64_t allocations = 0;  // of at least the threshold, whole trace
  std::uint64_t bytes = 0;        // that they asked for
  std::optional<Period> period;   // none: the map shows the whole stream
  bool changing = false;          // sizes differ from iteration to iteration; the largest is shown
  dsa::Time steps = 0;            // length of the time axis
  bool ranked = false;            // a step is from one begin or end of a block to the next
  std::uint64_t lower_bound = 0;  // of the blocks shown, bytes
  std::uint64_t height = 0;       // of the plan, bytes
  std::uint64_t unplanned = 0;    // blocks of an iteration that outlive it and are left out
  // Address space that glibc used for the blocks, holes under 1 MiB included.
  std::uint64_t glibc_bytes = 0;
  std::vector<MapBlock> blocks;
  // Greatest live bytes in each of equal parts of the whole stream.
  std::vector<std::uint64_t> live;
};

struct ModelOptions {
  std::string planner = "portfolio";
  double seconds = 2;                       // most planning time for each thread
  const std::atomic<bool>* stop = nullptr;  // set by another thread: plan no longer
};

// A plan in about the time that the options allow; none if no planner finds one.
std::optional<dsa::Plan> plan_within(const dsa::Problem& problem, const ModelOptions& options);

// A map for each thread that has large allocations, the greatest number of bytes first.
std::vector<ThreadMap> make_maps(const Streams& streams, const ModelOptions& options);

// Replays the trace in a child process without any preloaded allocator, and gives the blocks the
// places that it got there. Returns a complaint, or "".
std::string add_glibc_layout(const std::string& trace, std::uint64_t threshold,
                             std::vector<ThreadMap>& maps);

}  // namespace memo::cli
