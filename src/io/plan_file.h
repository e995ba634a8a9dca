// Plan files: schedules kept from one process to the next. Cold.
//
//   magic "MEMOPLAN" | version | library version | checksum of the rest | plans: header, steps, and
//   of a symbolic plan, rules ...
//
// A file is taken or refused as a whole. What it says is only a guess to the cursor, which verifies
// each size, and to the page map, which no offset can deceive: a wrong plan costs fallbacks, never
// memory. It is read inside one of the program's calls, so its size is bounded, and all that is
// done with it is one pass. Of a symbolic plan the file has the example and the rules; what lies on
// what is made anew, once calls have matched the plan.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/guard.h"
#include "src/base/options.h"
#include "src/io/saved_plan.h"

namespace memo {

// Writes the plans to `path`, by way of a new file renamed over it, so that processes that do so at
// once leave one whole file. A plan with which the file would be larger than kMaxPlanBytes is left
// out. False, with errno, if it cannot be written.
bool save_plans(const RecursionGuard&, const char* path, std::span<const SavedPlan> plans) noexcept;

// The same, with the plans that the file holds already: of two plans of one loop the lower one, the
// given ones first. A file that cannot be used gives none.
bool merge_plans(const RecursionGuard& guard, const char* path, std::span<const SavedPlan> plans,
                 Trust trust) noexcept;

// Reads plans of at most `most_height` bytes into `plans` and says how many. A parametric plan is
// one that memo::restore() still has to accept. A file that is
// missing gives none; one that others may have written, or that is damaged, foreign, too large or
// of another version, gives none and *problem says why.
std::uint32_t load_plans(const RecursionGuard&, const char* path, std::uint64_t most_height,
                         std::span<LoadedPlan> plans, std::string_view* problem,
                         Trust trust = Trust::kOwner) noexcept;

// True for a file that is there, is not empty and begins as no plan file does, and for a folder, a
// device or a pipe, which is not opened. It was named by mistake, and is not to be replaced or written.
bool is_foreign(const char* path) noexcept;

// Why a regular file at `path` is not believed, whatever is in it, and what to do: others than
// `trust` allows may have written it. Empty if it may be used, or there is none. Nor is such a file
// to be replaced.
std::string_view doubt_about(const char* path, Trust trust) noexcept;

}  // namespace memo
