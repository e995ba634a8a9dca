// What `memomalloc plans` does besides looking. Cold.
#pragma once

#include <string>
#include <vector>

#include "src/io/plan_cache.h"

namespace memo::cli {

// What came of plans that were put into a cache.
struct Added {
  std::uint64_t plans = 0;
  std::uint64_t refused = 0;  // told of on stderr
};

// Each returns an exit code, after a complaint on stderr where it is not kDone.

// The plans of the other caches, too.
int merge_plans(const std::string& folder, const std::vector<std::string>& others, Added& added);
// The plans of archives.
int import_plans(const std::string& folder, const std::vector<std::string>& paths, Added& added);
// An archive of the plans whose names begin so, or of all.
int export_plans(const std::string& folder, const std::string& path,
                 const std::vector<std::string>& beginnings, std::uint64_t& count);

}  // namespace memo::cli
