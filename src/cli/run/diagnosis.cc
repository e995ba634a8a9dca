// The checks before the command runs. Cold.
#include "src/cli/run/diagnosis.h"

#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "src/cli/base/process.h"
#include "src/cli/run/elf_file.h"
#include "src/cli/run/loader.h"
#include "src/io/plan_cache.h"

namespace memo::cli {
namespace {

bool runs_in_secure_mode(const std::string& path) {
  struct stat status{};
  return (stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0) ||
         getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// The first reason for which the loader would never map a preloaded library into the program.
std::optional<Finding> find_obstacle(const Program& program, const std::optional<ElfFile>& elf) {
  const auto fault = [](std::string what, std::string advice) {
    return Finding{Level::kFault, "program", std::move(what), std::move(advice)};
  };
  if (!elf) {
    return fault(program.path + " is not a program that the loader knows",
                 "name the program itself, not a shell word");
  }
  if (!elf->is_64_bit || elf->machine != own_machine()) {
    return fault(program.path + " is for another machine or for 32 bits",
                 "build libmemomalloc for that machine");
  }
  if (elf->interpreter.empty()) {
    return fault(program.path + " is statically linked, so LD_PRELOAD has no effect",
                 "link it dynamically, or use a build of the program that is");
  }
  if (elf->interpreter.find("ld-musl") != std::string::npos) {
    return fault(program.path + " uses musl, and libmemomalloc is built for glibc",
                 "use a glibc based image or build of the program");
  }
  if (runs_in_secure_mode(program.path)) {
    return fault(program.path +
                     " is setuid, setgid or has capabilities; the loader then ignores "
                     "LD_PRELOAD paths",
                 "run a copy that lacks these rights");
  }
  if (elf->allocators.contains("malloc")) {
    return fault(program.path + " defines malloc itself, which comes before every preloaded one",
                 "use a build that takes malloc from the C library");
  }
  return std::nullopt;
}

}  // namespace

Program find_program(const std::string& word) {
  Program program{find_in_path(word), ""};
  // The kernel follows at most four interpreters.
  for (int depth = 0; depth < 4 && !program.path.empty(); ++depth) {
    std::ifstream file(program.path, std::ios::binary);
    std::string line;
    if (file.get() != '#' || file.get() != '!' || !std::getline(file, line)) {
      break;
    }
    std::istringstream words(line);
    std::string interpreter;
    words >> interpreter;
    if (std::filesystem::path(interpreter).filename() == "env") {
      while (words >> interpreter &&
             (interpreter[0] == '-' || interpreter.find('=') != std::string::npos)) {
      }
    }
    if (program.interpreted.empty()) {
      program.interpreted = program.path;
    }
    program.path = find_in_path(interpreter);
  }
  return program;
}

std::set<std::string> objects_of(const Program& program, const std::string& preload) {
  const std::optional<ElfFile> elf = read_elf(program.path);
  const auto objects = elf ? loaded_objects(elf->interpreter, program.path, preload) : std::nullopt;
  return objects ? std::set<std::string>(objects->begin(), objects->end())
                 : std::set<std::string>{};
}

std::vector<Finding> examine_program(const Program& program, const std::string& library) {
  const std::optional<ElfFile> elf = read_elf(program.path);
  if (const auto found = find_obstacle(program, elf)) {
    return {*found};
  }
  std::vector<Finding> findings;
  const std::string shown =
      program.interpreted.empty() ? program.path : program.interpreted + ", run by " + program.path;
  findings.push_back({Level::kGood, "program", shown + ": dynamically linked, glibc", ""});
  if (!elf->allocators.empty()) {
    findings.push_back(
        {Level::kNote, "hidden",
         program.path + " contains an allocator of its own (" + *elf->allocators.begin() + ")",
         "blocks that it takes there are not seen"});
  }
  if (objects_of(program, library).contains(library)) {
    findings.push_back({Level::kGood, "loaded", library + " is mapped by the loader", ""});
  } else {
    findings.push_back({Level::kFault, "loaded", "the loader refuses " + library,
                        "see its message: LD_PRELOAD=" + library + " " + program.path});
  }
  if (sysconf(_SC_PAGESIZE) != 4096) {
    findings.push_back({Level::kNote, "program",
                        "pages have " + std::to_string(sysconf(_SC_PAGESIZE)) + " bytes, not 4096",
                        "a block then takes up to a page more"});
  }
  return findings;
}

std::string obstacle(const std::string& program) {
  const auto found = find_obstacle({program, ""}, read_elf(program));
  return found ? found->what : "";
}

std::vector<Finding> examine_environment() {
  std::vector<Finding> findings;
  for (const auto& [name, what] :
       {std::pair("MEMOMALLOC_DISABLE", "=1 switches the library off"),
        std::pair("MEMOMALLOC_OBSERVE", "=1 lets the library look on, and serve nothing")}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::string_view(value) == "1") {
      findings.push_back({Level::kFault, "environment", std::string(name) + what, "unset it"});
    }
  }
  const char* names = std::getenv("MEMOMALLOC_EXE");
  if (names != nullptr && *names != '\0') {
    findings.push_back({Level::kNote, "environment",
                        "MEMOMALLOC_EXE=" + std::string(names) + " leaves other executables out",
                        "the name to list is that of the file or of its link, such as python3"});
  }
  if (const char* plans = std::getenv("MEMOMALLOC_PLANS"); plans != nullptr) {
    const char* trust = std::getenv("MEMOMALLOC_PLAN_TRUST");
    const bool group = trust != nullptr && std::string_view(trust) == "group";
    char path[4096];
    const std::size_t length = user_cache(path, sizeof path);
    const bool is_named = std::string_view(plans) == "1" ? length != 0 && length < sizeof path
                                                         : expand_path(plans, path, sizeof path);
    const std::string_view doubt =
        is_named ? doubt_about_cache(path, group ? Trust::kGroup : Trust::kOwner)
                 : std::string_view();
    const std::size_t advice = doubt.find("; ");
    if (!doubt.empty()) {
      findings.push_back({Level::kNote, "environment",
                          "the plans in " + std::string(path) +
                              " are not used: " + std::string(doubt.substr(0, advice)),
                          advice == std::string_view::npos
                              ? "name a directory"
                              : std::string(doubt.substr(advice + 2))});
    }
  }
  const char* preload = std::getenv("LD_PRELOAD");
  for (const std::string& missing : missing_in(preload != nullptr ? preload : "")) {
    findings.push_back({Level::kNote, "environment",
                        "LD_PRELOAD names " + missing + ", which is not there",
                        "correct the path; the loader leaves such a library out"});
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    findings.push_back({Level::kNote, "environment",
                        "address space is limited to " + std::to_string(limit.rlim_cur >> 20U) +
                            " MB (`ulimit -v`)",
                        "the library reserves a quarter of what is left, and stays out below some "
                        "800 MB; limit memory by a cgroup instead"});
  }
  return findings;
}

}  // namespace memo::cli
