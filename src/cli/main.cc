// `memomalloc`: finds the command in the table and runs it.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/process.h"

namespace memo::cli {
#define GROUP(title)
#define COMMAND(name, function, summary) int function(int argc, char** argv);
#include "src/cli/base/commands.def"
#undef COMMAND
#undef GROUP

namespace {

// A group's title is a row without a function.
constexpr Command kRows[] = {
#define GROUP(title) {title, nullptr, {}},
#define COMMAND(name, function, summary) {name, function, summary},
#include "src/cli/base/commands.def"
#undef COMMAND
#undef GROUP
};

void print_help(std::FILE* to) {
  std::fputs(
      "usage: memomalloc COMMAND [OPTIONS]\n\n"
      "A malloc replacement for CPU inference and training: it plans the large allocations that\n"
      "repeat in every iteration.\n\n"
      "start with:\n"
      "    memomalloc run -- python infer.py        run a program with the library\n"
      "    memomalloc doctor -- python infer.py     is it on?\n"
      "    memomalloc compare -- python infer.py    what does it save?\n",
      to);
  for (const Command& row : kRows) {
    if (row.run == nullptr) {
      std::fprintf(to, "\n%s:\n", std::string(row.name).c_str());
    } else {
      std::fprintf(to, "  %-10s %s\n", std::string(row.name).c_str(),
                   std::string(row.summary).c_str());
    }
  }
  std::fputs(
      "\noptions:\n"
      "  -h, --help     show this help; `memomalloc COMMAND --help` shows that of a command\n"
      "  -V, --version  print the version\n",
      to);
}

// A standard stream that the caller closed would be the number of the next file that is opened, and
// messages would be written into it. What is opened here takes no text, and ends with an exec.
void occupy_standard_streams() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file) {
    if (fcntl(file, F_GETFD) < 0) {
      open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
  }
}

// words[0] is the command's name.
int run_command(int count, char** words) {
  std::vector<std::string> names;
  for (const Command& row : kRows) {
    if (row.run != nullptr && row.name == words[0]) {
      return row.run(count, words);
    }
    if (row.run != nullptr) {
      names.emplace_back(row.name);
    }
  }
  std::fprintf(stderr, "memomalloc: there is no command '%s'%s`memomalloc --help` lists them\n",
               words[0], hint(words[0], names).c_str());
  if (!find_in_path(words[0]).empty()) {
    std::fprintf(stderr, "to run this program with the library: memomalloc run -- %s\n", words[0]);
  }
  return kBadInput;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    print_help(stderr);
    return kBadInput;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    if (argc > 2) {  // `help run` is `run --help`
      std::string option = "--help";
      char* words[] = {argv[2], option.data(), nullptr};
      return run_command(2, words);
    }
    print_help(stdout);
    return kDone;
  }
  if (name == "--version" || name == "-V") {
    std::puts("memomalloc " MEMO_VERSION);
    return kDone;
  }
  return run_command(argc - 1, argv + 1);
}

}  // namespace
}  // namespace memo::cli

int main(int argc, char** argv) {
  memo::cli::occupy_standard_streams();
  int code = memo::cli::kBadInput;
  try {
    code = memo::cli::main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("memomalloc: out of memory; is there a limit (`ulimit -v`)?\n", stderr);
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "memomalloc: %s\n", error.what());
    return code;
  }
  // A full disk or a closed pipe must not look like an empty answer.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "memomalloc: the output could not be written: %s\n", std::strerror(errno));
    return code == memo::cli::kDone ? memo::cli::kBadInput : code;
  }
  return code;
}
