// What `doctor` finds out about a command, as findings in the order of its questions. Cold.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "src/cli/base/process.h"
#include "src/cli/base/process_rows.h"
#include "src/cli/run/hiders.h"
#include "src/cli/run/mapped_files.h"

namespace memo::cli {

enum class Level { kGood, kNote, kFault };

struct Finding {
  Level level = Level::kGood;
  std::string question;  // library, program, environment, loaded, seen, process, learning,
                         // serving, hidden, opened
  std::string what;
  std::string advice;  // what to do next; empty for good findings
};

struct Program {
  std::string path;         // the file that is executed
  std::string interpreted;  // the script, where the path is that of its `#!` interpreter
};

// Follows PATH and `#!` lines. An empty path if there is no such program.
Program find_program(const std::string& word);

// The files that the loader maps for it under `preload`. Empty if the loader could not be asked.
std::set<std::string> objects_of(const Program& program, const std::string& preload);

// Before the command runs: can the loader put `library` into `program` at all?
std::vector<Finding> examine_program(const Program& program, const std::string& library);

// Why the loader would never map a preloaded library into the program; empty if it would.
std::string obstacle(const std::string& program);

// What this process' environment does to the library: variables that switch it off, and other
// libraries in LD_PRELOAD.
std::vector<Finding> examine_environment();

// What keeps memory of the program from the library, one for each way; what is open is left out.
struct Hiding {
  const Hider* hider;
  std::string what;
};
std::vector<Hiding> what_hides(const std::set<std::string>& mapped,
                               const std::vector<std::string>& notes);

// One run of the command.
struct Run {
  std::vector<ProcessRow> rows;  // the processes that made large allocations
  bool told = false;             // any process has left statistics
  Watched watched;
  std::vector<std::string> notes;  // of Python's start hook: "PID NAME: what"
  std::vector<Hiding> hidden;
  Usage usage;
};

inline constexpr const char* kSilent =
    "a program that a signal ends leaves none, nor does one that gives up its rights";

// Processes that hold much and are not served, and why, the greatest first.
struct Unserved {
  pid_t pid;
  const WatchedProcess* process;
  std::string why;
};
std::vector<Unserved> unserved(const Run& run);

// After it ran.
std::vector<Finding> examine_run(const Run& run);

// The answer in one sentence, and whether it is yes: the library is on, and helps.
struct Verdict {
  std::string state;  // helps, little, hidden, short, silent, elsewhere, crashed, off
  std::string line;
  [[nodiscard]] bool helps() const { return state == "helps"; }
};
Verdict judge(const Run& run);

}  // namespace memo::cli
