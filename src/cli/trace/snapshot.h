// Reads snapshots of torch's caching allocator for GPUs, as torch.cuda.memory._dump_snapshot
// pickles them: what was allocated and freed while history was recorded, what was alive before, and
// what the allocator had reserved. Cold.
//
// Source: the format as torch.cuda.memory._snapshot documents it. A block's lifetime ends at
// free_completed, when its memory may serve others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsa/csv.h"
#include "src/io/trace_csv.h"

namespace memo::cli {

struct SnapshotBlock {
  std::uint64_t size = 0;    // bytes asked for
  std::uint64_t site = 0;    // hash of the call stack, 0 if unknown
  std::uint64_t stream = 0;  // that it was allocated for, as torch names it
  std::uint32_t lower = 0;   // in events of the device's trace; 0: alive before it begins
  std::uint32_t upper = 0;   // exclusive; the number of events + 1 if alive when it ends
  bool freed = false;
};

// An allocation or the end of one, in order.
struct SnapshotEvent {
  std::uint32_t block = 0;  // index
  bool is_free = false;
  std::int64_t micros = 0;  // as torch tells the time, 0 if it does not
};

struct SnapshotDevice {
  std::uint32_t number = 0;
  std::vector<SnapshotBlock> blocks;  // those alive before the trace begins come first
  std::vector<SnapshotEvent> events;  // without those blocks' allocations
  std::uint32_t before = 0;           // blocks alive before the trace begins
  std::uint64_t reserved = 0;         // most bytes that the allocator held at once
  std::uint64_t reserved_now = 0;     // when the snapshot was taken
  std::uint64_t alive = 0;            // most bytes asked for and alive at once
  std::uint64_t contradictions = 0;   // events that do not fit what came before them
};

struct Snapshot {
  std::vector<SnapshotDevice> devices;         // those that held anything, in order of number
  std::map<std::uint64_t, std::string> sites;  // call stacks' names: the innermost frame of Python
};

// True if the bytes begin as such a pickle does, and no text does.
bool begins_like_snapshot(std::string_view bytes);

// None, with `error` set to "name: byte N: reason", if the pickle is damaged, holds what a snapshot
// cannot, or is none.
std::optional<Snapshot> read_snapshot(std::string_view bytes, const std::string& name,
                                      std::string& error);

// The device's blocks as a problem of the planner's; each on a border of 512 bytes, as the caching
// allocator gives them.
dsa::CsvTable snapshot_problem(const SnapshotDevice& device);

// The snapshot's allocations and frees as a trace's rows, a thread for each device, devices merged
// by their times. Stops when `row` answers a reason, which is returned; "" if it never does.
std::string snapshot_rows(const Snapshot& snapshot,
                          const std::function<std::string(const TraceRow&)>& row);

// "device 0: 1200 blocks, 80 of them alive before the trace; ..." for people.
std::string describe_device(const SnapshotDevice& device);

}  // namespace memo::cli
