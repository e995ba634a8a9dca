// `memomalloc run`: becomes the command, with the library preloaded and the variables set. Since
// the process is replaced, signals and the exit code need no passing on. With --summary it stays, as
// the command's parent, and passes them on. Cold.
// A command that cannot be executed gives the codes that a shell, env and nohup give.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/process.h"
#include "src/cli/base/process_rows.h"
#include "src/cli/base/temporary.h"
#include "src/cli/run/allocators.h"
#include "src/cli/run/hiders.h"
#include "src/cli/run/loader.h"
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

volatile sig_atomic_t followed = 0;  // the command's process, for the signal handler

// Ends as the command did. A signal whose core file the command has left leaves no second one.
int end_as(const Usage& usage) {
  if (usage.signal != 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(usage.signal, SIG_DFL);
    raise(usage.signal);
  }
  return usage.exit_code;
}

// Runs the command to its end, with all that it leaves behind, and tells on stderr of its processes.
int run_and_tell(const CLI::App& app, const std::vector<std::string>& command,
                 Environment environment) {
  Usage usage;
  {
    const TemporaryFolder folder;
    environment["MEMOMALLOC_STATS_FILE"] = folder.path() / "%p.json";
    const double started = monotonic_seconds();
    adopt_orphans();
    const pid_t child = start({.words = command, .environment = environment});
    if (child < 0) {
      return refused(app, command[0], errno);
    }
    // Set after the start, since a child inherits what is ignored. A terminal's own signals go to the
    // command, too, which has them from there; from elsewhere they come to this process alone.
    followed = child;
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH}) {
      struct sigaction pass_on{};
      pass_on.sa_flags = SA_SIGINFO | SA_RESTART;
      pass_on.sa_sigaction = [](int signal, siginfo_t* info, void*) {
        if (info->si_code <= 0) {  // by kill() and the like, not by the kernel for a terminal
          kill(followed, signal);
        }
      };
      sigaction(number, &pass_on, nullptr);
    }
    usage = wait_for_all(child, started);
    std::fputs(as_table(process_rows(read_json_files(folder.path()))).c_str(), stderr);
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
      "set the MEMOMALLOC_ variable of the same name: --stats-file is MEMOMALLOC_STATS_FILE.");
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
  bool open = false;
  app.add_flag(
      "--open", open,
      "make libraries that have an allocator of their own use malloc, where they have a setting "
      "for it (ARROW_DEFAULT_MEMORY_POOL=system)");
  std::vector<std::string> command;
  if (auto code = parse_with_command(app, argc, argv, command)) {
    return *code;
  }
  const std::string library = find_own_library();
  if (library.empty()) {
    return complain(app, kLibraryMissing);
  }
  const char* others = std::getenv("LD_PRELOAD");
  std::string behind = others != nullptr ? others : "";
  if (!next.empty()) {
    const std::optional<std::string> allocator = next_allocator(next);
    if (!allocator) {
      return complain(app, "--next " + next + ": there is no such allocator here; --next takes " +
                               next_allocator_words() + ", if it is installed");
    }
    const std::string rest = foreign_preload();
    behind = allocator->empty() ? rest : preload_list(*allocator, rest);
  }
  Environment environment = flags.environment();
  if (open) {
    environment.merge(opening_environment());
  }
  environment["LD_PRELOAD"] = preload_list(library, behind);
  if (summary) {
    const char* file = std::getenv("MEMOMALLOC_STATS_FILE");
    if (environment.contains("MEMOMALLOC_STATS_FILE") || (file != nullptr && *file != '\0')) {
      return complain(
          app,
          "--summary reads the statistics of all processes from a folder of its own; leave out "
          "--stats-file and MEMOMALLOC_STATS_FILE");
    }
    return run_and_tell(app, command, environment);
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
