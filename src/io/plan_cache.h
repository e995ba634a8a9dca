// The plan cache: a folder of plans that processes share. Cold.
//
//   STREAM-KEY-KEY-KEY-KEY.plan     a plan file of one plan, and behind it a CacheRecord
//
// A plan is found by its name: STREAM is a hash of all its calls, the same wherever in the loop it
// begins, each KEY one of a few calls. Files come by a rename and go by an unlink, so that readers
// need no lock, and any file system will do. When a file was last used is its time of modification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/guard.h"
#include "src/base/options.h"
#include "src/base/tuning.h"
#include "src/io/plan_cache_name.h"
#include "src/io/saved_plan.h"
#include "src/io/shared_file.h"

namespace memo {

// Runs visit(context, name) for each plan's name in the folder; for none if it cannot be read.
void list_cache(const RecursionGuard&, const char* folder,
                void (*visit)(void* context, const PlanName& name), void* context) noexcept;

// Why the folder is not used, whatever is in it; empty if it may be, or there is none.
std::string_view doubt_about_cache(const char* folder, Trust trust) noexcept;

// Reads the plan of that name, of at most `most_height` bytes. False if it is not there any more,
// or cannot be used, and *problem says why; what another version of the library wrote is no
// problem.
bool load_cached(const RecursionGuard&, const char* folder, const PlanName& name,
                 std::uint64_t most_height, Trust trust, Cached& cached,
                 std::string_view* problem) noexcept;

// Makes the folder if it is not there. While one lives, no other process that asks has the folder:
// of two that save one stream at once the lower plan is to stay. One for all that is saved
// together, since each may wait for seconds. The lock is the folder's (flock), since files are
// replaced, and goes with the process. Best effort: a process that cannot have it within 2 s, or at
// all (a folder that may not be read, a file system without locks), goes without, and may undo what
// another does at the same moment.
class CacheTurn {
 public:
  explicit CacheTurn(const char* folder);
  ~CacheTurn();
  CacheTurn(const CacheTurn&) = delete;
  CacheTurn& operator=(const CacheTurn&) = delete;

 private:
  int folder_;
};

// Puts the plan into the folder, unless one of its stream lies there that is as low; a higher one
// goes. A parametric plan takes the place of the one before it. False, with errno, if it cannot be
// written.
bool save_cached(const RecursionGuard& guard, const CacheTurn&, const char* folder,
                 const SavedPlan& plan, const PlanName& name, const CacheRecord& record,
                 Trust trust) noexcept;

// The plan is in use: noted at most once an hour, where the folder may be written.
void note_use(const char* folder, const PlanName& name) noexcept;
void remove_cached(const char* folder, const PlanName& name) noexcept;

struct CacheLimits {
  std::uint64_t plans = tuning::kMaxCachedPlans;
  std::uint64_t bytes = tuning::kMaxCachedBytes;
  std::uint64_t unused = UINT64_MAX;  // seconds
};
struct Pruned {
  std::uint64_t plans = 0;
  std::uint64_t bytes = 0;
  std::uint64_t left_over = 0;  // files that killed writers had left
};
// Removes what exceeds the limits, what was used longest ago first; what killed writers left, too.
Pruned prune_cache(const RecursionGuard&, const char* folder, const CacheLimits& limits) noexcept;

}  // namespace memo
