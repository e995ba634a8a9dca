// `memomalloc run`: becomes the command, with the library preloaded and the variables set. Since
// the process is replaced, signals and the exit code need no passing on. Cold.
// A command that cannot be executed gives the codes that a shell, env and nohup give.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/cli/arguments.h"
#include "src/cli/command.h"
#include "src/cli/loader.h"
#include "src/cli/option_flags.h"
#include "src/cli/process.h"

namespace memo::cli {
namespace {

constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;

}  // namespace

int run(int argc, char** argv) {
  CLI::App app(
      "Runs COMMAND with libmemomalloc preloaded, before anything that LD_PRELOAD already names. "
      "The\n"
      "options set the MEMOMALLOC_ variable of the same name for it (see `memomalloc options`).\n"
      "The exit code is COMMAND's; 126 if it cannot be executed, 127 if there is no such program.");
  OptionFlags flags(app);
  std::vector<std::string> command;
  if (auto code = parse_with_command(app, argc, argv, command)) {
    return *code;
  }
  const std::string library = find_own_library();
  if (library.empty()) {
    return complain(app, kLibraryMissing);
  }
  const char* others = std::getenv("LD_PRELOAD");
  Environment environment = flags.environment();
  environment["LD_PRELOAD"] = preload_list(library, others != nullptr ? others : "");
  apply(environment);
  std::vector<char*> words;
  for (std::string& word : command) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  complain(app, describe_refusal(command[0], error));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace memo::cli
