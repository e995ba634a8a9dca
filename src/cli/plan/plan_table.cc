#include "src/cli/plan/plan_table.h"

#include <cstdio>
#include <utility>

#include "src/cli/base/arguments.h"
#include "src/cli/base/files.h"

namespace memo::cli {
namespace {

// The device that was asked for, or else the one with most alive; it and the others are named.
std::optional<Table> table_of(Snapshot snapshot, const TableRequest& request, std::string& error) {
  const SnapshotDevice* chosen = nullptr;
  for (const SnapshotDevice& device : snapshot.devices) {
    if (request.device ? device.number == *request.device
                       : chosen == nullptr || device.alive > chosen->alive) {
      chosen = &device;
    }
  }
  if (chosen == nullptr) {
    error = request.problem + ":0: " +
            (request.device ? "device " + std::to_string(*request.device) + " holds nothing there"
                            : std::string("the snapshot holds no blocks"));
    return std::nullopt;
  }
  for (const SnapshotDevice& device : snapshot.devices) {
    if (!request.quiet) {
      std::printf("%s\n", describe_device(device).c_str());
    }
  }
  return Table{snapshot_problem(*chosen), *chosen};
}

}  // namespace

std::optional<Table> read_table(const std::string& path, const TableRequest& request) {
  std::string error;
  if (const auto text = read_text(path, error)) {
    if (begins_like_snapshot(*text)) {
      if (std::optional<Snapshot> snapshot = read_snapshot(*text, path, error)) {
        if (std::optional<Table> table = table_of(std::move(*snapshot), request, error)) {
          return table;
        }
      }
      refuse(error, kHowToSnapshot);
      return std::nullopt;
    }
    dsa::CsvResult read = dsa::parse_csv(*text, path);
    if (read.table && !request.device) {
      return Table{std::move(*read.table), {}};
    }
    if (read.table) {
      refuse(path + ":1: --device is one of a snapshot's, and this is a problem", "leave it out");
      return std::nullopt;
    }
    error = read.error;
  }
  refuse(error, kHowToState);
  return std::nullopt;
}

}  // namespace memo::cli
