// Asks the dynamic loader. Cold.
#include "src/cli/run/loader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "src/cli/base/process.h"
#include "src/cli/base/temporary.h"
#include "src/cli/run/elf_file.h"

namespace memo::cli {
namespace {

namespace fs = std::filesystem;

// libmemomalloc.so.0.1.0 and libmemomalloc.so are the same library.
std::string stem(const std::string& path) {
  const std::string name = fs::path(path).filename();
  return name.substr(0, name.find(".so"));
}

}  // namespace

std::string find_own_library() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> folders = {here, here / "../lib", here / "../lib64"};
  for (const auto& entry : fs::directory_iterator(here / "../lib", ignored)) {
    if (entry.path().filename().string().find("-linux-gnu") != std::string::npos) {
      folders.push_back(entry.path());
    }
  }
  for (const fs::path& folder : folders) {
    for (const char* name : {kSoname, "libmemomalloc.so"}) {
      if (fs::exists(folder / name, ignored)) {
        return fs::canonical(folder, ignored) / name;
      }
    }
  }
  return find_by_soname(kSoname);
}

std::string why_not_preloaded(const std::string& library) {
  return library.find_first_of(" :") == std::string::npos
             ? ""
             : "LD_PRELOAD cannot name '" + library +
                   "', whose path has a blank or a colon, where its list is divided; install it "
                   "elsewhere, or make a "
                   "link to its folder that has neither, and call memomalloc there";
}

std::vector<std::string> preload_entries(const std::string& list) {
  std::vector<std::string> entries;
  std::string entry;
  for (const char c : list + ":") {
    if (c != ':' && c != ' ') {
      entry += c;
    } else if (!entry.empty()) {
      entries.push_back(entry);
      entry.clear();
    }
  }
  return entries;
}

bool gives_malloc(const std::string& entry) {
  const auto elf = read_elf(entry.find('/') != std::string::npos ? entry : find_by_soname(entry));
  return elf && elf->allocators.contains("malloc");
}

std::vector<std::string> missing_in(const std::string& list) {
  std::vector<std::string> missing;
  for (const std::string& entry : preload_entries(list)) {
    const bool is_path = entry.find('/') != std::string::npos;
    std::error_code failed;
    // ld.so replaces $LIB and its like: such a path is not known here.
    if (entry.find('$') == std::string::npos &&
        (is_path ? !fs::exists(entry, failed) : find_by_soname(entry).empty())) {
      missing.push_back(entry);
    }
  }
  return missing;
}

std::string preload_list(const std::string& first, const std::string& rest) {
  const std::string behind = preload_without(first, rest);
  return behind.empty() ? first : first + ":" + behind;
}

std::string preload_without(const std::string& library, const std::string& list) {
  std::string kept;
  for (const std::string& entry : preload_entries(list)) {
    if (stem(entry) != stem(library)) {
      kept += (kept.empty() ? "" : ":") + entry;
    }
  }
  return kept;
}

std::optional<std::vector<std::string>> loaded_objects(const std::string& interpreter,
                                                       const std::string& program,
                                                       const std::string& preload) {
  const TemporaryFile output;
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const CommandLine list{.words = {interpreter, "--list", program},
                         .environment = {{"LD_PRELOAD", preload}},
                         .output = output.descriptor(),
                         .errors = nowhere};
  const std::optional<Usage> usage = run_to_end(list);
  close(nowhere);
  if (!usage || usage->exit_code != 0) {
    return std::nullopt;
  }
  // Lines are "name => /path (0x...)" or "/path (0x...)".
  std::vector<std::string> objects;
  std::istringstream lines(output.contents());
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find('/');
    const std::size_t arrow = line.find("=> /");
    const std::size_t end = line.rfind(" (");
    const std::size_t from = arrow != std::string::npos ? arrow + 3 : begin;
    if (from != std::string::npos && end != std::string::npos && end > from) {
      objects.push_back(line.substr(from, end - from));
    }
  }
  return objects;
}

std::string find_by_soname(const std::string& soname) {
  const std::string self = "/proc/self/exe";
  const std::optional<ElfFile> elf = read_elf(self);
  if (!elf) {
    return "";
  }
  std::error_code ignored;
  const auto objects = loaded_objects(elf->interpreter, fs::read_symlink(self, ignored), soname);
  for (const std::string& path : objects.value_or(std::vector<std::string>{})) {
    if (stem(path) == stem(soname)) {
      return path;
    }
  }
  return "";
}

}  // namespace memo::cli
