// Fuzzes the reader of pickles and of snapshots of torch's GPU allocator.
//
// Whatever the bytes: either a message of the form `f: byte N: reason`, or devices whose blocks make
// a problem that is well formed, and rows that allocate each block once and free it at most once.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "src/cli/trace/snapshot.h"
#include "src/cli/trace/unpickle.h"
#include "tests/fuzz/require.h"

namespace {

using memo::TraceRow;

void check_rows(const memo::cli::Snapshot& snapshot) {
  std::vector<int> state;  // 0: not yet, 1: alive, 2: freed
  const std::string refused = memo::cli::snapshot_rows(snapshot, [&](const TraceRow& row) {
    state.resize(std::max<std::size_t>(state.size(), row.block + 1));
    int& now = state[row.block];
    require(now == (row.kind == TraceRow::Kind::kFree ? 1 : 0));
    ++now;
    return std::string();
  });
  require(refused.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string error;
  if (const auto read = memo::cli::Pickled::read(bytes, error)) {
    require(!read->circle());
  }
  error.clear();
  const auto snapshot = memo::cli::read_snapshot(bytes, "f", error);
  require(snapshot.has_value() == error.empty());
  require(snapshot || (error.starts_with("f: byte ") && error.size() > 12));
  require_of_seed(snapshot && !snapshot->devices.empty());
  if (!snapshot) {
    return 0;
  }
  for (const memo::cli::SnapshotDevice& device : snapshot->devices) {
    const dsa::CsvTable table = memo::cli::snapshot_problem(device);
    require(static_cast<bool>(dsa::validate(table.problem)));
    require(!memo::cli::describe_device(device).empty());
    require(dsa::lower_bound(table.problem) >= static_cast<dsa::Bytes>(device.alive));
  }
  check_rows(*snapshot);
  return 0;
}
