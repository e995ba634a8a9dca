// `memomalloc doctor`: does the library help a command, and if not, what is in the way? Runs the
// command to find out. Cold.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/json_text.h"
#include "src/cli/base/process.h"
#include "src/cli/base/temporary.h"
#include "src/cli/run/diagnosis.h"
#include "src/cli/run/loader.h"
#include "src/cli/run/mapped_files.h"
#include "src/cli/run/opening.h"

namespace memo::cli {
namespace {

const char* word_for(Level level) {
  constexpr const char* kNames[] = {"ok", "note", "FAULT"};
  return kNames[static_cast<std::size_t>(level)];
}

bool is_fault(const Finding& finding) {
  return finding.level == Level::kFault;
}

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

// Runs the command to its end, with these variables besides. None: it could not be executed.
std::optional<Run> run_watched(const std::vector<std::string>& command, Environment environment) {
  const TemporaryFolder folder;
  environment["MEMOMALLOC_STATS_FILE"] = folder.path() / "%p.json";
  environment["_MEMOMALLOC_NOTES"] = folder.path() / "notes";
  const double started = monotonic_seconds();
  adopt_orphans();
  const SignalsPassedOn passed_on;  // a terminal's interrupt ends the command alone
  const pid_t child =
      start({.words = command, .environment = environment, .output = STDERR_FILENO});
  if (child < 0) {
    return std::nullopt;
  }
  SignalsPassedOn::to(child);
  Run run;
  run.watched = watch(child);
  run.usage = wait_for_all(child, started);
  const std::vector<nlohmann::json> statistics = read_json_files(folder.path());
  run.told = !statistics.empty();
  run.rows = process_rows(statistics);
  run.notes = lines_of(folder.path() / "notes");
  return run;
}

// What the command holds on its own, in words.
std::string without_library(const std::vector<std::string>& command, const Run& with) {
  const char* others = std::getenv("LD_PRELOAD");
  const auto run = run_watched(
      command, {{"LD_PRELOAD", others != nullptr ? std::optional(preload_without(kSoname, others))
                                                 : std::nullopt}});
  return !run ? ""
              : " Without the library it holds " + mebibytes(run->watched.held) +
                    ", seen: at most " + mebibytes(run->watched.peak) + ", and takes " +
                    std::to_string(run->usage.minor_faults) + " page faults, not " +
                    std::to_string(with.usage.minor_faults) +
                    (run->usage.exit_code == 0
                         ? "."
                         : "; it ended with " + describe_exit(run->usage.exit_code) + " then.");
}

// Runs the command with the library, and appends what its run shows.
Verdict examine_by_running(const std::vector<std::string>& command, const Program& program,
                           const std::string& library, bool both, std::vector<Finding>& findings,
                           std::vector<ProcessRow>& processes) {
  const char* others = std::getenv("LD_PRELOAD");
  const std::string preload = preload_list(library, others != nullptr ? others : "");
  // This process has what is set, too: an open allocator is not reported as hidden.
  const Environment opening = opening_environment(chosen_openings(), preload);
  const Environment as_before = apply(opening);
  std::optional<Run> run = run_watched(command, {{"LD_PRELOAD", preload}});
  if (!run) {
    findings.push_back({Level::kFault, "program", describe_refusal(command[0], errno),
                        "then ask the doctor again"});
    return {"off", findings.back().what};
  }
  if (run->usage.exit_code != 0) {
    findings.push_back({Level::kNote, "program",
                        "it ended with " + describe_exit(run->usage.exit_code),
                        "see its messages above; does it end so without the library too?"});
  }
  // A program that ends between two looks has still mapped what it is linked to.
  run->watched.mapped.merge(objects_of(program, preload));
  run->hidden = what_hides(run->watched.mapped, run->notes);
  append(findings, examine_run(*run));
  processes = run->rows;
  Verdict verdict = judge(*run);
  if (both) {
    apply(as_before);
    verdict.line += without_library(command, *run);
  }
  return verdict;
}

void print(const Verdict& verdict, const std::vector<Finding>& findings) {
  std::printf("%s\n\n", printable(verdict.line).c_str());
  const bool colour = isatty(STDOUT_FILENO) != 0;
  constexpr const char* kColours[] = {"\033[32m", "\033[33m", "\033[31m"};
  for (const Finding& finding : findings) {
    std::printf("%s%-5s%s %-11s %s\n",
                colour ? kColours[static_cast<std::size_t>(finding.level)] : "",
                word_for(finding.level), colour ? "\033[0m" : "", finding.question.c_str(),
                printable(finding.what).c_str());
    if (!finding.advice.empty()) {
      std::printf("                  -> %s\n", finding.advice.c_str());
    }
  }
}

void print_json(const Verdict& verdict, const std::vector<Finding>& findings,
                const std::vector<ProcessRow>& processes) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Finding& finding : findings) {
    rows.push_back({{"level", finding.level == Level::kFault ? "fault" : word_for(finding.level)},
                    {"question", finding.question},
                    {"what", finding.what},
                    {"advice", finding.advice}});
  }
  const nlohmann::json answer = {{"healthy", verdict.helps()},
                                 {"verdict", {{"state", verdict.state}, {"line", verdict.line}}},
                                 {"findings", rows},
                                 {"processes", as_json(processes)}};
  std::printf("%s\n", json_text(answer, 2).c_str());
}

}  // namespace

int doctor(int argc, char** argv) {
  bool json = false;
  bool closed = false;
  bool both = false;
  CLI::App app(
      "Runs COMMAND with the library, and tells whether that helps: "
      "memomalloc doctor -- python infer.py\n"
      "The first line is the answer: what part of the large blocks is served, and what the "
      "program\n"
      "holds; or what is in the way. What was looked at follows, and each note says what to do. Of "
      "a\n"
      "server, the processes that do the work are judged; end it by any signal. COMMAND's stdout\n"
      "goes to stderr. Exit code 0: it helps; 1: it does not.");
  app.add_flag("--json", json, "the answer and the findings as JSON");
  app.add_flag("--both", both,
               "run COMMAND a second time, without the library, and tell what it holds then");
  app.add_flag("--no-open", closed, "leave memory pools of frameworks as they are");
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
  if (closed) {
    setenv("MEMOMALLOC_OPEN", "none", 1);
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
  const auto fault = std::find_if(findings.begin(), findings.end(), is_fault);
  const Verdict verdict =
      fault != findings.end()
          ? Verdict{"off", "It is not on: " + fault->what + "; " + fault->advice + "."}
          : examine_by_running(command, program, library, both, findings, processes);
  json ? print_json(verdict, findings, processes) : print(verdict, findings);
  return verdict.helps() ? kDone : kNo;
}

}  // namespace memo::cli
