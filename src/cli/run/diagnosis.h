// What `doctor` finds out about a command, as findings in the order of its questions. Cold.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/cli/base/process_rows.h"

namespace memo::cli {

enum class Level { kGood, kNote, kFault };

struct Finding {
  Level level = Level::kGood;
  std::string question;  // library, program, environment, loaded, seen, process, learning,
                         // serving, hidden
  std::string what;
  std::string advice;  // what to do next; empty for good findings
};

struct Program {
  std::string path;         // the file that is executed
  std::string interpreted;  // the script, where the path is that of its `#!` interpreter
};

// Follows PATH and `#!` lines. An empty path if there is no such program.
Program find_program(const std::string& word);

// Before the command runs: can the loader put `library` into `program` at all?
std::vector<Finding> examine_program(const Program& program, const std::string& library);

// MEMOMALLOC_ variables of this process that switch the library off.
std::vector<Finding> examine_environment();

// After it ran: the processes that made large allocations, and the files that all had mapped.
std::vector<Finding> examine_run(const std::vector<ProcessRow>& rows,
                                 const std::set<std::string>& mapped);

}  // namespace memo::cli
