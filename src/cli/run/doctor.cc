// `memomalloc doctor`: is the library loaded into a command, does it see, learn and serve, and what
// hides allocations from it? Runs the command to find out. Cold.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/process.h"
#include "src/cli/base/temporary.h"
#include "src/cli/run/diagnosis.h"
#include "src/cli/run/loader.h"
#include "src/cli/run/mapped_files.h"

namespace memo::cli {
namespace {

volatile sig_atomic_t watched = 0;  // the command's process, for the signal handler

const char* word_for(Level level) {
  constexpr const char* kNames[] = {"ok", "note", "FAULT"};
  return kNames[static_cast<std::size_t>(level)];
}

bool has_fault(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.level == Level::kFault; });
}

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Runs the command with the library and appends what its run shows. The processes that made large
// allocations.
std::vector<ProcessRow> examine_by_running(const std::vector<std::string>& command,
                                           const std::string& library,
                                           std::vector<Finding>& findings) {
  const TemporaryFolder folder;
  const char* others = std::getenv("LD_PRELOAD");
  const CommandLine line{
      .words = command,
      .environment = {{"LD_PRELOAD", preload_list(library, others != nullptr ? others : "")},
                      {"MEMOMALLOC_STATS_FILE", folder.path() / "%p.json"}},
      .output = STDERR_FILENO};
  const double started = monotonic_seconds();
  adopt_orphans();
  const pid_t child = start(line);
  if (child < 0) {
    findings.push_back({Level::kFault, "program", describe_refusal(command[0], errno),
                        "then ask the doctor again"});
    return {};
  }
  // A terminal's interrupt goes to the command too; the diagnosis follows when the command has
  // ended. Set after the start, since a child inherits what is ignored.
  watched = child;
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGTERM, [](int number) { kill(watched, number); });
  const std::set<std::string> mapped = watch_mapped_files(child);
  const Usage usage = wait_for_all(child, started);
  if (usage.exit_code != 0) {
    findings.push_back({Level::kNote, "program", "it ended with " + describe_exit(usage.exit_code),
                        "see its messages above; does it end so without the library too?"});
  }
  const std::vector<ProcessRow> rows = process_rows(read_json_files(folder.path()));
  append(findings, examine_run(rows, mapped));
  return rows;
}

void print(const std::vector<Finding>& findings) {
  std::puts(has_fault(findings) ? "It is not on; each FAULT below says what to do.\n"
                                : "It is on, and serves this program.\n");
  const bool colour = isatty(STDOUT_FILENO) != 0;
  constexpr const char* kColours[] = {"\033[32m", "\033[33m", "\033[31m"};
  for (const Finding& finding : findings) {
    std::printf("%s%-5s%s %-11s %s\n",
                colour ? kColours[static_cast<std::size_t>(finding.level)] : "",
                word_for(finding.level), colour ? "\033[0m" : "", finding.question.c_str(),
                finding.what.c_str());
    if (!finding.advice.empty()) {
      std::printf("                  -> %s\n", finding.advice.c_str());
    }
  }
}

void print_json(const std::vector<Finding>& findings, const std::vector<ProcessRow>& processes) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Finding& finding : findings) {
    rows.push_back({{"level", finding.level == Level::kFault ? "fault" : word_for(finding.level)},
                    {"question", finding.question},
                    {"what", finding.what},
                    {"advice", finding.advice}});
  }
  const nlohmann::json answer = {
      {"healthy", !has_fault(findings)}, {"findings", rows}, {"processes", as_json(processes)}};
  std::printf("%s\n", answer.dump(2).c_str());
}

}  // namespace

int doctor(int argc, char** argv) {
  bool json = false;
  CLI::App app(
      "Runs COMMAND with the library and tells whether it serves: memomalloc doctor -- python "
      "infer.py\n"
      "If it does not, each FAULT says what to do. Four things are looked at: is the library\n"
      "loaded, does it see large allocations, has it learned, does it serve. Of a server, the\n"
      "processes that do the work are judged; end it by any signal. COMMAND's stdout goes to\n"
      "stderr. Exit code 0: it serves; 1: there is a fault.");
  app.add_flag("--json", json, "the findings as JSON");
  std::vector<std::string> command;
  if (auto code = parse_with_command(app, argc, argv, command)) {
    return *code;
  }
  const Program program = find_program(command[0]);
  if (program.path.empty()) {
    // Not found, or found and not executable; a bare name is never the latter.
    const bool refused =
        command[0].find('/') != std::string::npos && access(command[0].c_str(), X_OK) != 0;
    return complain(app, describe_refusal(command[0], refused ? errno : ENOENT));
  }
  std::vector<Finding> findings;
  std::vector<ProcessRow> processes;
  const std::string library = find_own_library();
  if (library.empty()) {
    findings.push_back({Level::kFault, "library", "not found", kLibraryMissing});
  } else if (const std::string reason = why_not_preloaded(library); !reason.empty()) {
    findings.push_back(
        {Level::kFault, "library", "it cannot be loaded by `memomalloc run`", reason});
  } else {
    findings.push_back({Level::kGood, "library", library + ", version " MEMO_VERSION, ""});
    append(findings, examine_environment());
    append(findings, examine_program(program, library));
  }
  if (!has_fault(findings)) {
    processes = examine_by_running(command, library, findings);
  }
  json ? print_json(findings, processes) : print(findings);
  return has_fault(findings) ? kNo : kDone;
}

}  // namespace memo::cli
