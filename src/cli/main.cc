// `memomalloc`: finds the command in the table and runs it.
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>

#include "src/cli/command.h"

namespace memo::cli {
#define COMMAND(name, function, summary) int function(int argc, char** argv);
#include "src/cli/commands.def"
#undef COMMAND

namespace {

constexpr Command kCommands[] = {
#define COMMAND(name, function, summary) {name, function, summary},
#include "src/cli/commands.def"
#undef COMMAND
};

void print_help(std::FILE* to) {
  std::fputs("usage: memomalloc COMMAND [options]\n\ncommands:\n", to);
  for (const Command& command : kCommands) {
    std::fprintf(to, "  %-10.*s %.*s\n", static_cast<int>(command.name.size()), command.name.data(),
                 static_cast<int>(command.summary.size()), command.summary.data());
  }
  std::fputs(
      "\n`memomalloc COMMAND --help` tells a command's options; `memomalloc --version` the "
      "version.\n",
      to);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return kBadInput;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return kDone;
  }
  if (name == "--version") {
    std::puts("memomalloc " MEMO_VERSION);
    return kDone;
  }
  for (const Command& command : kCommands) {
    if (command.name == name) {
      return command.run(argc - 1, argv + 1);
    }
  }
  std::fprintf(stderr, "memomalloc: there is no command '%s'; `memomalloc --help` lists them\n",
               argv[1]);
  return kBadInput;
}

}  // namespace memo::cli

int main(int argc, char** argv) {
  return memo::cli::main(argc, argv);
}
