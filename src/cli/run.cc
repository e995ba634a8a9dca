// `memomalloc run`: becomes the command, with the library preloaded and the variables set. Since
// the process is replaced, signals and the exit code need no passing on. Cold.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "src/cli/arguments.h"
#include "src/cli/command.h"
#include "src/cli/loader.h"
#include "src/cli/option_flags.h"
#include "src/cli/process.h"

namespace memo::cli {

int run(int argc, char** argv) {
  CLI::App app(
      "Runs COMMAND with libmemomalloc preloaded, before anything that LD_PRELOAD already names. "
      "The\n"
      "options set the MEMOMALLOC_ variable of the same name for it (see `memomalloc options`).");
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
  return complain(app, "cannot run '" + command[0] + "': " + std::strerror(errno) +
                           "; give a program's path or a name that PATH holds");
}

}  // namespace memo::cli
