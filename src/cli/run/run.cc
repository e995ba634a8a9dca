// `memomalloc run`: becomes the command, with the library preloaded and the variables set. Since
// the process is replaced, signals and the exit code need no passing on. With --summary it stays,
// as the command's parent, and passes them on. Cold. A command that cannot be executed gives the
// codes that a shell, env and nohup give.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"
#include "src/cli/base/process.h"
#include "src/cli/base/process_rows.h"
#include "src/cli/base/temporary.h"
#include "src/cli/run/allocators.h"
#include "src/cli/run/loader.h"
#include "src/cli/run/opening.h"
#include "src/cli/run/option_flags.h"

namespace memo::cli {
namespace {

constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

// The code for a command that could not be executed, after the complaint.
int refused(const CLI::App& app, const std::string& word, int error) {
  complain(app, describe_refusal(word, error));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

// Ends as the command did. A signal whose core file the command has left leaves no second one.
int end_as(const Usage& usage) {
  if (usage.signal != 0) {
    end_by(usage.signal);
  }
  return usage.exit_code;
}

// The file of each process, PID.json, to the path that the user has named. Without %p the one that
// ended last stays, as it does without --summary.
void copy_statistics(const std::filesystem::path& folder, const std::string& wanted) {
  std::error_code ignored;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    if (file.path().extension() == ".json") {
      files.emplace_back(file.last_write_time(ignored), file.path());
    }
  }
  std::sort(files.begin(), files.end());
  char path[4096];
  for (const auto& [ended, file] : files) {
    std::string named = wanted;  // %p is the process' number, not ours
    for (std::size_t at = 0; (at = named.find("%p", at)) != std::string::npos;) {
      named.replace(at, 2, file.stem().string());
    }
    std::string error;
    const std::optional<std::string> text = read_text(file, error);
    if (text && !expand_path(named, path, sizeof path)) {
      error = named + ": the name is too long; name a shorter one";
    }
    if (!error.empty() || !write_text(path, *text, error)) {
      std::fprintf(stderr, "memomalloc run: the statistics are lost: %s\n", error.c_str());
    }
  }
}

// The variable as the command gets it, "" if it has none.
std::string value_in(const Environment& environment, const char* name) {
  if (const auto set = environment.find(name); set != environment.end()) {
    return set->second.value_or("");
  }
  const char* set = std::getenv(name);
  return set != nullptr ? set : "";
}

// Runs the command to its end, with all that it leaves behind, and reports its processes on stderr.
// `wanted`: the file in which the user wants the statistics, or "".
int run_and_tell(const CLI::App& app, const std::vector<std::string>& command,
                 Environment environment, const std::string& wanted) {
  Usage usage;
  {
    const TemporaryFolder folder;
    environment["MEMOMALLOC_STATS_FILE"] = folder.path() / "%p.json";
    const double started = monotonic_seconds();
    adopt_orphans();
    const SignalsPassedOn passed_on;
    const pid_t child = start({.words = command, .environment = environment});
    if (child < 0) {
      return refused(app, command[0], errno);
    }
    SignalsPassedOn::to(child);
    usage = wait_for_all(child, started);
    std::fputs(as_table(process_rows(read_json_files(folder.path()))).c_str(), stderr);
    if (!wanted.empty()) {
      copy_statistics(folder.path(), wanted);
    }
  }
  return end_as(usage);
}

}  // namespace

int run(int argc, char** argv) {
  CLI::App app(
      "Runs COMMAND with the library: memomalloc run -- python infer.py\n"
      "Its output and its exit code are COMMAND's; 126 if it cannot be executed, 127 if there is\n"
      "no such program. Libraries that LD_PRELOAD already names stay, after this one. Most "
      "options\n"
      "set the MEMOMALLOC_ variable of the same name: --plans is MEMOMALLOC_PLANS.");
  OptionFlags flags(app);
  bool summary = false;
  app.add_flag(
      "--summary", summary,
      "at the end, a table of the processes that made large allocations, and their sum, on stderr");
  std::string next;
  app.add_option("--next", next,
                 "the allocator for all small blocks, and for large ones that the library does not "
                 "serve: " +
                     next_allocator_words())
      ->type_name("NAME");
  bool closed = false;
  app.add_flag("--no-open", closed, "leave memory pools of frameworks as they are: as --open none");
  std::vector<std::string> command;
  if (auto code = parse_with_command(app, argc, argv, command)) {
    return *code;
  }
  const std::string library = find_own_library();
  if (library.empty()) {
    return complain(app, kLibraryMissing);
  }
  if (const std::string reason = why_not_preloaded(library); !reason.empty()) {
    return complain(app, reason);
  }
  const char* others = std::getenv("LD_PRELOAD");
  std::string behind = others != nullptr ? others : "";
  if (!next.empty()) {
    const std::optional<std::string> allocator = next_allocator(next);
    if (!allocator) {
      return complain(app, "--next " + next + ": there is no such allocator here; --next takes " +
                               next_allocator_words() + ", if it is installed");
    }
    if (const std::string reason = why_not_preloaded(*allocator); !reason.empty()) {
      return complain(app, reason);
    }
    const std::string rest = foreign_preload();
    behind = allocator->empty() ? rest : preload_list(*allocator, rest);
  }
  Environment environment = flags.environment();
  if (closed) {
    environment["MEMOMALLOC_OPEN"] = "none";
  }
  std::string openings = value_in(environment, "MEMOMALLOC_OPEN");
  if (std::string reason = check_openings(openings); !reason.empty()) {
    reason.insert(0, "bad value of MEMOMALLOC_OPEN: ");
    if (value_in(environment, "MEMOMALLOC_STRICT") == "1") {
      return complain(app, reason);
    }
    std::fprintf(stderr, "memomalloc: %s; the default is used\n", reason.c_str());
    environment["MEMOMALLOC_OPEN"] = openings = "all";
  }
  const std::string preload = preload_list(library, behind);
  if (value_in(environment, "MEMOMALLOC_DISABLE") != "1") {
    environment.merge(
        opening_environment(openings, preload, value_in(environment, "MEMOMALLOC_CUDA") == "1"));
  }
  environment["LD_PRELOAD"] = preload;
  if (summary) {
    return run_and_tell(app, command, environment, value_in(environment, "MEMOMALLOC_STATS_FILE"));
  }
  apply(environment);
  std::vector<char*> words;
  for (std::string& word : command) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  execvp(words[0], words.data());
  return refused(app, command[0], errno);
}

}  // namespace memo::cli
