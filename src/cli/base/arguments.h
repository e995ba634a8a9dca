// Command lines as every command reads them: CLI11 for the options, the exit codes of command.h,
// and `-- command...` split off before any option is looked for. Cold.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memo::cli {

// The group of the options that few need: the help has them last.
inline constexpr const char* kAdvanced = "Advanced";

// Parses argv[1 .. argc). An empty result means go on; else it is the exit code, and help or the
// complaint has been printed.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

// The same for a command whose only option is --json.
std::optional<int> parse_listing(CLI::App& app, int argc, char** argv, bool& json);

// As parse(), for `NAME [options] -- command...`; `command` gets the words of the command. The `--`
// may be left out where the command's first word is not an option. A missing command is bad usage.
std::optional<int> parse_with_command(CLI::App& app, int argc, char** argv,
                                      std::vector<std::string>& command);

// "; did you mean 'NAME'?" where a misspelt word is near one of the names, "; " where none is: what
// tells of the names comes behind it.
std::string hint(std::string_view word, const std::vector<std::string>& names);

// Where the options are listed: what ends a complaint.
std::string help_of(const CLI::App& app);

// The text with `?` for all that controls a terminal: it may quote a hostile file.
std::string printable(std::string text);

// Prints "memomalloc NAME: what" to stderr, and returns kBadInput.
int complain(const CLI::App& app, const std::string& what);

// The one form in which an input file is refused: "file:line: reason; advice" on stderr, as
// compilers write it, so that editors find the line. Returns kBadInput.
int refuse(const std::string& reason, std::string_view advice);

// What makes a file of each format, or tells how to write one: the advice for refuse().
inline constexpr std::string_view kHowToRecord =
    "a trace is recorded with `memomalloc run --trace-file FILE -- COMMAND`";
inline constexpr std::string_view kHowToState =
    "a problem begins with the line id,lower,upper,size (`memomalloc plan --help`); `memomalloc "
    "analyze TRACE --problem FILE` writes one from a trace";
inline constexpr std::string_view kHowToSnapshot =
    "torch.cuda.memory._record_memory_history() and later _dump_snapshot(FILE) write one "
    "(the source's docs/gpu.md)";
inline constexpr std::string_view kHowToExport =
    "a graph begins with {\"format\": \"memomalloc-graph\", \"version\": 1 "
    "(docs/file-formats.md); the source's scripts/export_graph.py writes one from torch or ONNX";

// What --help says of an argument that names a trace.
inline constexpr const char* kTracePath =
    "TRACE.csv or TRACE.csv.gz, or a snapshot of torch's GPU allocator; - is standard input";

// Checks for options. A number of bytes takes K, M, G and becomes digits.
CLI::Validator bytes();
CLI::Validator not_negative();
CLI::Validator process_number();

}  // namespace memo::cli
