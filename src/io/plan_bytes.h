// A plan file as bytes, if it may be believed: what plan files and the store have in common. Cold.
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

// As doubt_about() of plan_file.h, of what was looked at already.
std::string_view doubt(const struct stat& status, Trust trust);

}  // namespace memo
