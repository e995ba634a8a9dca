// A plan cache as the command `plans` looks at it. Cold.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/base/options.h"
#include "src/io/plan_cache.h"

namespace memo::cli {

// Files are read whatever slabs their plans ask for.
inline constexpr std::uint64_t kAnyHeight = std::numeric_limits<std::uint64_t>::max();

// One file of the cache.
struct PlanFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t used = 0;  // seconds since 1970
  bool other_version = false;
  bool half_written = false;
  std::string problem;  // why it cannot be used; empty: it can
  // Where it can be used:
  CacheRecord record;
  std::uint32_t calls = 0;  // of an iteration
  std::uint32_t steps = 0;
  std::uint64_t height = 0;
  std::uint64_t bound = 0;
  bool parametric = false;
};

// The folder that `named` means: "" is MEMOMALLOC_PLANS or, without it, the user's own; "1" the
// user's own. Empty, with `error` set, if there is none.
std::string plans_folder(const std::string& named, std::string& error);

// As MEMOMALLOC_PLAN_TRUST says.
Trust plans_trust();

// All files of the folder that belong to a cache, by name; none, with `error` set, if it is not
// there or is another's.
std::optional<std::vector<PlanFile>> read_plans_folder(const std::string& folder,
                                                       std::string& error);

// The whole plan; false, with `problem` set, if it cannot be used.
bool read_plan(const std::string& folder, const std::string& name, Cached& cached,
               std::string& problem);

}  // namespace memo::cli
