// What a plan would be worth to the program of a snapshot: of all blocks together, of each stream's
// apart, and of one iteration for all. Cold.
#pragma once

#include <cstdint>
#include <string>

#include "src/cli/trace/snapshot.h"

namespace memo::cli {

struct SnapshotWorth {
  std::uint64_t reserved = 0;  // as torch did, bytes
  std::uint64_t alive = 0;
  std::uint64_t height = 0;  // of the plan of all blocks
  // Streams have memory of their own: a block's is used again by its own stream alone, as no event
  // has to be waited for.
  std::uint64_t streams = 0;
  std::uint64_t by_stream = 0;  // sum of the plans' heights
  // The loop at the trace's end; 0 calls: it does not repeat. One plan serves all iterations, and
  // what is no part of the loop lies beside it.
  std::uint64_t calls = 0;  // of an iteration
  std::uint64_t iterations = 0;
  std::uint64_t by_iteration = 0;  // of memory
};

// `height`: that of a plan of snapshot_problem(device). Makes further plans, each in a second at
// most.
SnapshotWorth worth_of(const SnapshotDevice& device, std::uint64_t height);
// The same with such a plan for all blocks.
SnapshotWorth worth_of(const SnapshotDevice& device);

// "a plan saves 13.50 GiB of 28.70 GiB reserved, and needs 0.30 GiB more than is alive; ..."
std::string worth_sentence(const SnapshotWorth& worth);

}  // namespace memo::cli
