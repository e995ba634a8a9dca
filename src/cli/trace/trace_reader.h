// Reads a trace CSV or a snapshot of torch's GPU allocator, plain or .gz, into the streams that the
// engine would have seen. Cold; the only user of zlib, which the shared object must not need.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/trace/snapshot.h"
#include "src/io/trace_csv.h"

namespace memo::cli {

// `path` "-" is standard input. Calls `row` for each row in the file's order; stops with an error
// when a line is bad or `row` answers a reason. Returns "" or "file:line: reason", of a snapshot
// "file: byte N: reason".
std::string read_trace(const std::string& path,
                       const std::function<std::string(const TraceRow&)>& row);

// The file's snapshot; none if it cannot be read, which `error` tells, or is something else, and
// then `error` is empty.
std::optional<Snapshot> load_snapshot(const std::string& path, std::string& error);

// An event of one thread's stream: an allocation (its index in the stream) or the end of one.
struct StreamEvent {
  std::uint32_t allocation = 0;
  bool is_free = false;
  std::uint64_t row = 0;  // of the trace: the order of all threads' events
};

// What one thread asked for, allocations of at least the threshold only.
struct Stream {
  std::vector<Allocation> allocations;  // with their deaths, in any thread
  std::vector<StreamEvent> events;      // in the trace's order
  std::vector<std::uint32_t> marks;     // number of allocations made before each mark
};

using Streams = std::map<std::uint32_t, Stream>;  // by thread

// All threads of a trace, also those without an allocation of `threshold` bytes. Returns "" or
// "file:line: reason"; then `streams` is unspecified.
std::string read_streams(const std::string& path, std::uint64_t threshold, Streams& streams);

}  // namespace memo::cli
