// Watches a running command and its descendants: the files that they map, and the memory that they
// hold. Cold.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace memo::cli {

// One process, as it was at the last look.
struct WatchedProcess {
  std::string name;
  std::string executable;
  std::string preload;              // LD_PRELOAD of the environment that it was started with
  std::set<std::string> libraries;  // copies of our own library that it maps
  std::int64_t memory = 0;          // bytes without mapped files
  std::int64_t peak = 0;            // the most of them at a look
};

struct Watched {
  std::set<std::string> mapped;  // executable files of all processes
  std::map<pid_t, WatchedProcess> processes;
  std::int64_t held = 0;  // bytes of all processes together, without mapped files, at the last look
  std::int64_t peak = 0;  // the most at one look
};

// Adds what `process` and its descendants map now. The memory that they hold, in bytes.
std::int64_t look_at(pid_t process, Watched& watched);

// Looks again and again, five times a second after the first moments, until the child has ended.
// The child is left for wait_for.
Watched watch(pid_t child);

}  // namespace memo::cli
