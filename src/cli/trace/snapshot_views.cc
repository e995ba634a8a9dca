// A snapshot as the planner's problem, as a trace's rows, and in words; see snapshot.h. Cold.
#include <limits>

#include "src/cli/trace/heap_map.h"
#include "src/cli/trace/snapshot.h"

namespace memo::cli {
namespace {

// CUDACachingAllocator.cpp, kMinBlockSize: every block begins and ends on such a border.
constexpr std::uint64_t kBorder = 512;

TraceRow row_of(const SnapshotDevice& device, std::uint32_t index, std::uint64_t first,
                bool is_free) {
  const SnapshotBlock& block = device.blocks[index];
  TraceRow row;
  row.kind = is_free ? TraceRow::Kind::kFree : TraceRow::Kind::kAllocate;
  row.thread = device.number;
  row.block = first + index;
  if (!is_free) {
    row.size = block.size;
    row.alignment = kBorder;
    row.site = block.site;
  }
  return row;
}

}  // namespace

bool begins_like_snapshot(std::string_view bytes) {
  return bytes.starts_with('\x80');
}

dsa::CsvTable snapshot_problem(const SnapshotDevice& device) {
  dsa::CsvTable table;
  for (std::size_t i = 0; i < device.blocks.size(); ++i) {
    const SnapshotBlock& block = device.blocks[i];
    dsa::Buffer buffer;
    buffer.lower = block.lower;
    buffer.upper = block.upper;
    buffer.size = static_cast<dsa::Bytes>(block.size);
    buffer.alignment = kBorder;
    table.problem.buffers.push_back(buffer);
    table.ids.push_back(std::to_string(i));
  }
  return table;
}

std::string describe_device(const SnapshotDevice& device) {
  const auto human = [](std::uint64_t bytes) {
    return human_bytes(static_cast<dsa::Bytes>(bytes));
  };
  std::string text =
      "device " + std::to_string(device.number) + ": " + std::to_string(device.blocks.size()) +
      " blocks, " + std::to_string(device.before) + " of them alive before the trace; reserved " +
      human(device.reserved) + " at most, alive " + human(device.alive) + " at the peak";
  if (device.contradictions > 0) {
    text += "; " + std::to_string(device.contradictions) + " events contradict what came before";
  }
  return text;
}

std::string snapshot_rows(const Snapshot& snapshot,
                          const std::function<std::string(const TraceRow&)>& row) {
  std::vector<std::uint64_t> first;  // device -> number of its first block
  std::vector<std::size_t> next(snapshot.devices.size(), 0);
  std::uint64_t blocks = 0;
  for (const SnapshotDevice& device : snapshot.devices) {
    first.push_back(blocks);
    blocks += device.blocks.size();
    for (std::uint32_t i = 0; i < device.before; ++i) {
      if (std::string refused = row(row_of(device, i, first.back(), false)); !refused.empty()) {
        return refused;
      }
    }
  }
  for (;;) {
    std::size_t earliest = snapshot.devices.size();
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < snapshot.devices.size(); ++i) {
      const SnapshotDevice& device = snapshot.devices[i];
      if (next[i] < device.events.size() && device.events[next[i]].micros < least) {
        least = device.events[next[i]].micros;
        earliest = i;
      }
    }
    if (earliest == snapshot.devices.size()) {
      return "";
    }
    const SnapshotDevice& device = snapshot.devices[earliest];
    const SnapshotEvent& event = device.events[next[earliest]++];
    if (std::string refused = row(row_of(device, event.block, first[earliest], event.is_free));
        !refused.empty()) {
      return refused;
    }
  }
}

}  // namespace memo::cli
