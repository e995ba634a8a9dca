// The name of a cached plan's file, the program that made the plan, and the user's own folder of
// plans. Cold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/options.h"
#include "src/follow/plan_name.h"
#include "src/io/saved_plan.h"

namespace memo {

// Who made a plan. No data, and of arguments and code a hash each: names of files.
struct CacheRecord {
  char magic[8] = {'M', 'E', 'M', 'O', 'M', 'A', 'D', 'E'};
  char program[72] = "";        // the executable, and the script or module that it was given
  std::uint32_t arguments = 0;  // of the words behind these, but the code of -c; 0: none
  std::uint32_t code = 0;       // of -c; 0: none
  char machine[16] = "";        // as uname says
  char library[16] = "";        // version
  std::uint64_t made = 0;       // seconds since 1970
};

inline constexpr std::size_t kCachedNameRoom = 96;  // of a file's name, with the final zero

// The file's name.
void write_name(const PlanName& name, char (&text)[kCachedNameRoom]);
// False if it is no name of a cached plan.
bool parse_name(std::string_view text, PlanName& name);
// How a parametric plan is found, whose sizes are another process' own; 0: not known.
struct Origin {
  std::uint64_t beginning = 0;  // key of the first calls of the process that made it
  std::uint64_t program = 0;    // key_of_program() of its record
};
// The plan's name. One without keys: it cannot be found, or there is no memory for it.
PlanName name_of(const SavedPlan& plan, const Origin& origin) noexcept;

// This process, now.
CacheRecord describe_maker();
// A key of the program's name, like those of calls.
std::uint64_t key_of_program(const CacheRecord& record);

struct Cached {
  LoadedPlan plan;
  CacheRecord record;
};
// The user's own cache, in the cache folder that the environment names. The length of the path; 0:
// none is named; `room` or more: it does not fit, and is cut short.
std::size_t user_cache(char* path, std::size_t room);
// MEMOMALLOC_PLANS=1 becomes the user's own cache. Says on stderr if there is none.
void name_cache(Options& options);

}  // namespace memo
