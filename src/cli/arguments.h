// Command lines as every command reads them: CLI11 for the options, the exit codes of command.h,
// and
// `-- command...` split off before any option is looked for. Cold.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace memo::cli {

// Parses argv[1 .. argc). An empty result means go on; else it is the exit code, and help or the
// complaint has been printed.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

// The same for `NAME [options] -- command...`; `command` gets the words of the command. The `--`
// may be left out where the command's first word is not an option. A missing command is bad usage.
std::optional<int> parse_with_command(CLI::App& app, int argc, char** argv,
                                      std::vector<std::string>& command);

// Prints "memomalloc NAME: what" to stderr, and returns kBadInput.
int complain(const CLI::App& app, const std::string& what);

}  // namespace memo::cli
