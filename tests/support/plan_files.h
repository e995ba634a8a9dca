// A plan written to a file of its own, and read as the store reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/tuning.h"
#include "src/io/plan_bytes.h"
#include "src/io/plan_records.h"
#include "src/io/replace_file.h"

namespace memo::testing {

inline bool save_plan(const std::string& path, const SavedPlan& plan) {
  const std::vector<char> bytes = format_plan(plan, tuning::kMaxPlanBytes);
  return replace_file(path.c_str(),
                      [&](int file) { return write_all(file, bytes.data(), bytes.size()); });
}

inline bool load_plan(const std::string& path, std::uint64_t most_height, LoadedPlan& plan,
                      std::string_view* problem, Trust trust = Trust::kOwner) {
  std::vector<char> bytes;
  *problem = read_plan_bytes(path.c_str(), trust, bytes);
  return problem->empty() && parse_plan(bytes, most_height, plan, problem);
}

}  // namespace memo::testing
