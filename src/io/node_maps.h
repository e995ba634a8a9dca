// On which memory nodes ranges of addresses lie, as the kernel counts it (/proc/self/numa_maps), for
// whom no system call tells: containers refuse those. The kernel walks all pages meanwhile. Cold.
#pragma once

#include <cstdint>
#include <span>

#include "src/base/nodes.h"

namespace memo {

// A range, and what was found of it.
struct NodeRange {
  std::uint64_t start = 0;  // addresses
  std::uint64_t bytes = 0;
  NodeBytes found;
  // The program, or who started it, has set where memory lies (numactl, mbind).
  bool by_policy = false;
};

// Where the library's memory lies.
struct NodeFigures {
  NodeSet nodes = 0;  // that the process may use
  NodeBytes slabs;
  NodeBytes pool;     // weights among it
  NodeBytes weights;  // known where the system lets pages be asked for
};

// Counts for each of the ranges the mappings that begin in it. False where the file cannot be read.
bool read_node_maps(std::span<NodeRange> ranges, const char* path = "/proc/self/numa_maps");

}  // namespace memo
