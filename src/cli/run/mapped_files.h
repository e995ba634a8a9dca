// Watches which files a running command and its descendants map. Cold.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

namespace memo::cli {

// Adds the paths of the executable files mapped now by `process` and its descendants.
void add_mapped_files(pid_t process, std::set<std::string>& files);

// Looks again and again, five times a second after the first moments, until the child has ended.
// The child is left for wait_for.
std::set<std::string> watch_mapped_files(pid_t child);

}  // namespace memo::cli
