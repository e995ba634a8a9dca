// The problem that `memomalloc plan` is given: a CSV file, or a device of a GPU snapshot. Cold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dsa/csv.h"
#include "src/cli/trace/snapshot.h"

namespace memo::cli {

struct TableRequest {
  std::string problem;
  std::optional<std::uint32_t> device;  // of a snapshot; none: the one with most memory in use
  bool quiet = false;                   // nothing else goes to stdout
};

struct Table : dsa::CsvTable {
  std::optional<SnapshotDevice> device;  // whose blocks these are, if they are from a snapshot
};

// The problem in the file at `path`; none if it is refused, which has then been said.
std::optional<Table> read_table(const std::string& path, const TableRequest& request);

}  // namespace memo::cli
