// A plan's file as bytes, if it may be believed. Cold.
//
//   magic "MEMOPLAN" | version | library version | checksum of the rest | plan: header, steps, and
//   of a symbolic plan, rules ... | trailer
//
// A file is taken or refused as a whole. What it says is only a guess to the cursor, which verifies
// each size, and to the page map, which no offset can deceive: a wrong plan costs fallbacks, never
// memory. It is read inside one of the program's calls, so its size is bounded, and all that is
// done with it is one pass.
#pragma once

#include <sys/stat.h>
#include <string_view>
#include <vector>

#include "src/base/options.h"

namespace memo {

// The file's bytes, if it is a regular file of a size that a plan file has and that may be
// believed; else what is wrong with it. The descriptor is asked, not the path, which others may
// move. May throw for want of memory.
std::string_view read_plan_bytes(const char* path, Trust trust, std::vector<char>& bytes);

// Why what was looked at is not believed, whatever is in it, and what to do: others than `trust`
// allows may have written it. Empty if it may be used.
std::string_view doubt(const struct stat& status, Trust trust);

}  // namespace memo
