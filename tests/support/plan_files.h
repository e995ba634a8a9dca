// Plans written to a file of their own, and read as the store reads them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/tuning.h"
#include "src/io/plan_bytes.h"
#include "src/io/plan_records.h"
#include "src/io/replace_file.h"

namespace memo::testing {

inline bool save_plans(const std::string& path, std::span<const SavedPlan> plans) {
  const std::vector<char> bytes = format_plans(plans, tuning::kMaxPlanBytes);
  return replace_file(path.c_str(),
                      [&](int file) { return write_all(file, bytes.data(), bytes.size()); });
}

// How many, and why there are none.
inline std::uint32_t load_plans(const std::string& path, std::uint64_t most_height,
                                std::span<LoadedPlan> plans, std::string_view* problem,
                                Trust trust = Trust::kOwner) {
  std::vector<char> bytes;
  *problem = read_plan_bytes(path.c_str(), trust, bytes);
  return problem->empty() ? parse_plans(bytes, most_height, plans, problem) : 0;
}

}  // namespace memo::testing
