// `memomalloc status`: a look into running processes, by the pages that they write where
// MEMOMALLOC_STATUS asks for it. Needs no right to trace them. Cold.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/json_text.h"
#include "src/cli/status/open_metrics.h"
#include "src/cli/status/status_pages.h"
#include "src/cli/status/status_text.h"

namespace memo::cli {
namespace {

constexpr const char* kHowToShow =
    " to show; start one with `memomalloc run --status -- COMMAND`, or with MEMOMALLOC_STATUS=1. "
    "It "
    "is shown once it makes large allocations, a forked worker once it serves";

volatile sig_atomic_t interrupted = 0;

struct StatusRequest {
  std::optional<pid_t> pid;
  bool all = false;
  bool watch = false;
  bool json = false;
  bool metrics = false;
};

// The statistics of those asked for. A page that is not believed is named on stderr.
std::vector<nlohmann::json> look(const StatusRequest& wishes) {
  std::vector<std::string> problems;
  std::vector<nlohmann::json> processes;
  for (const ProcessPage& page : merged(read_pages(wishes.pid, problems))) {
    // A look for Prometheus comes all the time, and costs the process nothing.
    const auto residency = wishes.metrics ? std::nullopt : residency_of(page);
    processes.push_back(as_json(page, residency));
  }
  for (const std::string& problem : problems) {
    std::fprintf(stderr, "%s\n", problem.c_str());
  }
  return processes;
}

std::string show(const std::vector<nlohmann::json>& processes, const StatusRequest& wishes) {
  if (wishes.metrics) {
    return open_metrics(processes);
  }
  if (wishes.json) {
    return json_text(nlohmann::json(processes), wishes.watch ? -1 : 2) + "\n";
  }
  if (processes.empty()) {
    return (wishes.pid ? "process " + std::to_string(*wishes.pid) + " has nothing" : "no process") +
           kHowToShow + "\n";
  }
  std::string text;
  if (wishes.pid || (processes.size() == 1 && !wishes.all)) {
    for (const nlohmann::json& process : processes) {
      text += status_details(process);
    }
    return text;
  }
  return status_table(processes);
}

// Once a second until Ctrl-C, in the same place of a terminal, else one after the other.
int watch(const StatusRequest& wishes) {
  struct sigaction end{};
  end.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &end, nullptr);
  sigaction(SIGTERM, &end, nullptr);
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  while (interrupted == 0 && std::ferror(stdout) == 0) {
    std::string text = show(look(wishes), wishes);
    if (terminal) {
      for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 4) {
        text.replace(at, 1, "\033[K\n");  // what stood there before goes
      }
      text.insert(0, "\033[H").append("\033[J");
    }
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    sleep(1);
  }
  return kDone;
}

}  // namespace

int status(int argc, char** argv) {
  StatusRequest wishes;
  pid_t pid = 0;
  CLI::App app(
      "Shows what the library does in running processes: a line for each, or all about one.\n"
      "Start them with `memomalloc run --status -- COMMAND`, or with MEMOMALLOC_STATUS=1; others\n"
      "are not shown. One that was killed is shown once more, as ended. Exit code 1 if there is "
      "none.");
  CLI::Option* one = app.add_option("PID", pid, "all about this process");
  one->check(process_number());
  app.add_flag("--all", wishes.all,
               "a line for each process, even if there is only one; root sees those of all users")
      ->excludes(one);
  CLI::Option* repeated = app.add_flag("--watch", wishes.watch, "again every second, until Ctrl-C");
  app.add_flag("--json", wishes.json, "as JSON; with --watch a line each second");
  CLI::Option* metrics =
      app.add_flag("--openmetrics", wishes.metrics,
                   "as text for Prometheus, for example for node_exporter's textfile collector");
  metrics->excludes(repeated);
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  if (one->count() != 0) {
    wishes.pid = pid;
  }
  if (wishes.watch) {
    return watch(wishes);
  }
  const std::vector<nlohmann::json> processes = look(wishes);
  const bool plain = !wishes.json && !wishes.metrics;
  std::fputs(show(processes, wishes).c_str(), processes.empty() && plain ? stderr : stdout);
  return processes.empty() && !wishes.metrics ? kNo : kDone;
}

}  // namespace memo::cli
