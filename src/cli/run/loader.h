// What the dynamic loader would do: where our own library is, and which objects a program gets with
// a given LD_PRELOAD. The loader itself is asked, so that its search rules need no second copy.
// Cold.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace memo::cli {

inline constexpr const char* kSoname = "libmemomalloc.so.1";
inline constexpr const char* kLibraryMissing =
    "libmemomalloc.so.1 was not found next to this command, in its ../lib, or where the loader "
    "looks; install the wheel again, or run `make install` in the source folder";

// The path of libmemomalloc, looked for relative to this command: beside it (a build folder), in
// ../lib, ../lib/<multiarch triple> and ../lib64; then where the loader finds the soname. Empty if
// none.
std::string find_own_library();

// Why LD_PRELOAD cannot name a library with this path, and what to do; empty if it can.
std::string why_not_preloaded(const std::string& library);

// `first` before the entries of `rest`, which is an LD_PRELOAD value, possibly empty, and loses its
// entries of the same file name as `first`.
std::string preload_list(const std::string& first, const std::string& rest);

// The list without the entries of the same file name as `library`.
std::string preload_without(const std::string& library, const std::string& list);

// The entries of an LD_PRELOAD value.
std::vector<std::string> preload_entries(const std::string& list);

// True if the library that such an entry names defines malloc.
bool gives_malloc(const std::string& entry);

// Those of them that the loader does not find.
std::vector<std::string> missing_in(const std::string& list);

// The path at which the loader finds `soname`, empty if it does not.
std::string find_by_soname(const std::string& soname);

// The paths of the objects that `interpreter`, the program's own loader, would map for `program`
// under `preload`. None if it could not be run.
std::optional<std::vector<std::string>> loaded_objects(const std::string& interpreter,
                                                       const std::string& program,
                                                       const std::string& preload);

}  // namespace memo::cli
