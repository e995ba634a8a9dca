// Performs a recorded trace's allocations again, on whatever allocator this process runs with. Each
// of the trace's threads gets a thread, and they take turns in the recorded order, so that
// per-thread allocators see what they would have seen, and two replays are alike. Cold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/io/trace_csv.h"

namespace memo::cli {

struct ReplayEvent {
  TraceRow::Kind kind = TraceRow::Kind::kAllocate;  // never a mark
  Op op = Op::k_malloc;
  std::uint32_t thread = 0;     // index of a worker, from 0 on
  std::uint32_t block = 0;      // index of the block, from 0 on
  std::uint64_t size = 0;       // bytes
  std::uint64_t alignment = 1;  // bytes, a power of two
};

struct ReplayTrace {
  std::vector<ReplayEvent> events;
  std::uint32_t threads = 0;
  std::uint32_t blocks = 0;
  std::uint64_t bytes = 0;                    // sum of the sizes asked for
  std::vector<std::uint32_t> left;            // blocks that the trace never frees
  std::vector<std::uint32_t> thread_numbers;  // worker -> the trace's number
};

// Returns "" or "file:line: reason".
std::string read_replay(const std::string& path, ReplayTrace& trace);

struct ReplayResult {
  std::vector<double> seconds;            // of each iteration
  std::vector<std::uintptr_t> addresses;  // block -> its address in the last iteration
  std::uint64_t refused_bytes = 0;        // size of the request that failed; 0: none did
  std::uint32_t missing_threads = 0;      // that could not be started; then nothing was played
};

// Plays the whole trace `iterations` times and, with `touch`, writes a byte into each page of each
// block. Blocks that the trace leaves allocated are freed at the end of each iteration.
ReplayResult replay_trace(const ReplayTrace& trace, int iterations, bool touch);

}  // namespace memo::cli
