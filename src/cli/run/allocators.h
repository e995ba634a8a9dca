// The allocators to compare: the rows of allocators.def and our own, as environments to start a
// command with. Cold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/cli/base/process.h"

namespace memo::cli {

struct Allocator {
  std::string name;      // as `--allocators` takes it
  std::string library;   // path of the shared object, empty for the C library's own
  std::string settings;  // NAME=VALUE words, empty for the default
  std::string note;      // what the settings do
};

inline constexpr const char* kOwnName = "memomalloc";
// Our own with the plans that an earlier run, not measured, has saved.
inline constexpr const char* kOwnPlannedName = "memomalloc-plans";

// Every row whose library is installed, in the order of the table, our own last.
std::vector<Allocator> installed_allocators();

// The names of all rows, installed or not.
std::vector<std::string> allocator_names();

// The environment that makes a command use it, our own as `memomalloc run` does. Other allocators
// leave the user's LD_PRELOAD.
Environment environment_of(const Allocator& allocator);

// The same as words before a command in a shell: LD_PRELOAD=... NAME=VALUE...
std::string shell_words(const Allocator& allocator);

// The library that is to be the underlying allocator behind ours: `word` is glibc, the name of a
// row without settings, a path (with a slash), or auto, the first installed of kBestNext. Empty:
// the C library's own. None: it is not installed, or there is no such row.
std::optional<std::string> next_allocator(const std::string& word);
// What next_allocator() takes, for --help and messages.
std::string next_allocator_words();

// The user's LD_PRELOAD without the libraries that define malloc.
std::string foreign_preload();

// The rows as text, a line each, for --help.
std::string describe_allocators();

}  // namespace memo::cli
