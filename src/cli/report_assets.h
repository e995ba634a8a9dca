// The files of src/cli/report/, compiled into the command. Cold.
#pragma once

#include <string_view>

namespace memo::cli {

// The contents of a file by its name in that folder; empty if there is none of that name.
std::string_view asset(std::string_view name);

}  // namespace memo::cli
