// `memomalloc compare`: the same command under each allocator, interleaved. Cold.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"
#include "src/cli/base/json_text.h"
#include "src/cli/base/process_rows.h"
#include "src/cli/base/temporary.h"
#include "src/cli/base/ticker.h"
#include "src/cli/compare/comparison.h"
#include "src/cli/run/allocators.h"
#include "src/cli/run/loader.h"

namespace memo::cli {
namespace {

struct Comparison {
  std::vector<std::string> command;
  std::vector<Contestant> contestants;
  int runs = 5;
  int warm_ups = 1;
  bool lists_processes = false;
  std::vector<ProcessRow> processes;
};

// The rows that the user named, or all that are installed. Complains and returns none if one is
// unknown or not installed.
std::optional<std::vector<Contestant>> choose(const CLI::App& app,
                                              const std::vector<std::string>& wanted) {
  const std::vector<Allocator> installed = installed_allocators();
  const std::vector<std::string> known = allocator_names();
  if (wanted.empty() && find_own_library().empty()) {
    complain(app, kLibraryMissing);
    return std::nullopt;
  }
  std::vector<Contestant> chosen;
  for (const Allocator& allocator : installed) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), allocator.name) != wanted.end()) {
      chosen.push_back({allocator, {}, 0, 0});
    }
  }
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      complain(app, "there is no allocator '" + name + "' in the table; --help lists them");
      return std::nullopt;
    }
    if (std::none_of(chosen.begin(), chosen.end(),
                     [&](const Contestant& c) { return c.allocator.name == name; })) {
      complain(app, "the library of '" + name +
                        "' was not found; install it, or leave it out of --allocators");
      return std::nullopt;
    }
  }
  return chosen;
}

// The rows of the table that do not compete: "jemalloc, tcmalloc".
std::string left_out(const std::vector<Contestant>& contestants) {
  std::string names;
  for (const std::string& name : allocator_names()) {
    if (std::none_of(contestants.begin(), contestants.end(),
                     [&](const Contestant& c) { return c.allocator.name == name; })) {
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  return names;
}

// Of a failing command's messages: a run may write megabytes.
std::string last_lines(const std::string& text) {
  constexpr int kLines = 40;
  std::size_t from = text.size();
  for (int line = 0; line <= kLines && from != std::string::npos; ++line) {
    from = from == 0 ? std::string::npos : text.rfind('\n', from - 1);
  }
  return from == std::string::npos ? text : "[...]" + text.substr(from);
}

class Runner {
 public:
  explicit Runner(const Comparison& comparison) : command_(comparison.command) {}

  // Runs the command once, and all that it leaves behind to its end. None if it could not even be
  // executed; errno tells why.
  std::optional<Sample> run(const Allocator& allocator, const Environment& more = {}) {
    CommandLine line{.words = command_,
                     .environment = environment_of(allocator),
                     .output = output_.descriptor(),
                     .errors = errors_.descriptor()};
    if (allocator.name == kOwnPlannedName) {
      line.environment["MEMOMALLOC_PLANS"] = folder_.path() / "plans";
    }
    for (const auto& [name, value] : more) {
      line.environment[name] = value;
    }
    output_.clear();
    errors_.clear();
    const double started = monotonic_seconds();
    const pid_t child = start(line);
    if (child < 0) {
      return std::nullopt;
    }
    SignalsPassedOn::to(child);
    Usage usage = wait_for_all(child, started);
    all_ended_ = end_left_behind(usage);
    return Sample{usage, last_json_numbers(output_.contents())};
  }

  // Why no run may follow the latest one; empty: one may.
  [[nodiscard]] std::string why_stop() const {
    return SignalsPassedOn::caught() != 0 ? "stopped"
           : all_ended_                   ? ""
                        : "the command leaves a process behind that cannot be ended: stopped";
  }

  [[nodiscard]] std::string errors() const { return last_lines(errors_.contents()); }

 private:
  const std::vector<std::string>& command_;
  bool all_ended_ = true;
  SignalsPassedOn signals_;
  TemporaryFile output_;
  TemporaryFile errors_;
  TemporaryFolder folder_;
};

// Rounds begin with a different allocator each, so that none always follows the same one.
// After Ctrl-C, which ends the current run too, what was measured before it is kept. Returns an
// exit code.
int measure(Comparison& comparison) {
  constexpr int kGoOn = -1;
  Ticker ticker("the warm-up");
  Runner runner(comparison);
  adopt_orphans();
  std::vector<Contestant>& all = comparison.contestants;
  std::optional<Sample> sample;  // of the latest run, if that ended well
  const auto run = [&](Contestant& contestant, const std::string& what,
                       const Environment& more = {}) {
    ticker.tell(what + ", " + contestant.allocator.name);
    sample = runner.run(contestant.allocator, more);
    if (!sample) {
      const int error = errno;
      ticker.say("memomalloc compare: " + describe_refusal(comparison.command[0], error));
      return static_cast<int>(kBadInput);
    }
    if (const std::string why = runner.why_stop(); !why.empty()) {
      ticker.say("memomalloc compare: " + why + " in " + what);
      return static_cast<int>(kNo);
    }
    if (const int code = sample->usage.exit_code; code != 0) {
      if (contestant.failures++ == 0) {
        ticker.say("memomalloc compare: " + describe_exit(code) + " under " +
                   contestant.allocator.name + "; its stderr:\n" + runner.errors() +
                   "\nRun it alone with " + shell_words(contestant.allocator) +
                   " to see more, or leave this row out with --allocators.");
      }
      contestant.last_failure = code;
      sample.reset();
    }
    return kGoOn;
  };
  for (int round = std::min(-comparison.warm_ups, -1); round < comparison.runs; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Contestant& contestant = all[(i + static_cast<std::size_t>(std::max(round, 0))) % all.size()];
      // Before the measured runs the row with plans needs one that makes them, and the file cache
      // as many as were asked for.
      const bool fills_cache = i == 0 && comparison.warm_ups > 0;
      if (round < 0 && !fills_cache && contestant.allocator.name != kOwnPlannedName) {
        continue;
      }
      const int code = run(contestant, round < 0 ? "the warm-up"
                                                 : "run " + std::to_string(round + 1) + " of " +
                                                       std::to_string(comparison.runs));
      if (code != kGoOn || (round < 0 && !sample)) {
        return code != kGoOn ? code : static_cast<int>(kNo);
      }
      if (round >= 0 && sample) {
        contestant.samples.push_back(*sample);
      }
    }
  }
  const auto own = std::find_if(all.begin(), all.end(), [](const Contestant& contestant) {
    return contestant.allocator.name == kOwnName;
  });
  if (comparison.lists_processes && own != all.end()) {
    const TemporaryFolder statistics;
    const int code = run(*own, "the run that lists the processes",
                         {{"MEMOMALLOC_STATS_FILE", statistics.path() / "%p.json"}});
    if (code != kGoOn) {
      return code;
    }
    comparison.processes = process_rows(read_json_files(statistics.path()));
  }
  const bool failed =
      std::any_of(all.begin(), all.end(), [](const Contestant& c) { return c.failures > 0; });
  return failed ? kNo : kDone;
}

// What is set for one of the allocators is not its default: no run gets it.
void unset_settings() {
  constexpr const char* kPrefixes[] = {"GLIBC_TUNABLES=", "MALLOC_", "MEMOMALLOC_", "MIMALLOC_",
                                       "TCMALLOC_"};
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                    [&](const char* prefix) { return text.starts_with(prefix); })) {
      names.push_back(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& name : names) {
    unsetenv(name.c_str());
    std::fprintf(stderr,
                 "memomalloc compare: the runs are without %s; `env` before COMMAND sets it\n",
                 name.c_str());
  }
}

// The answer first, then the figures. `missing`: the allocators that are not installed.
void print(const Comparison& comparison, const std::string& missing) {
  const Answer answer = answer_of(comparison.contestants, comparison.command);
  if (!answer.what.empty()) {
    std::printf("%s\n\n", answer.what.c_str());
  }
  std::fputs(as_table(comparison.contestants).c_str(), stdout);
  if (!missing.empty()) {
    std::printf("Left out, since not installed: %s\n", missing.c_str());
  }
  if (comparison.lists_processes) {
    std::printf("\n%s", as_table(comparison.processes).c_str());
  }
  if (!answer.next.empty()) {
    std::printf("\n%s\n", answer.next.c_str());
  }
}

}  // namespace

int compare(int argc, char** argv) {
  Comparison comparison;
  std::vector<std::string> wanted;
  std::string csv_path;
  std::string page_path;
  bool json = false;
  CLI::App app(
      "Runs COMMAND under each allocator that is installed: memomalloc compare -- python infer.py\n"
      "Shows time, processor time, page faults and peak memory: the median of the runs, with the\n"
      "least and the most. The runs are interleaved. If COMMAND prints a line of JSON, its "
      "numbers\n"
      "named p50..., p99... and first... become columns. Peak memory is the largest process'. What "
      "a\n"
      "run leaves behind is ended. Exit code 1 if a run failed.");
  app.add_option("--allocators", wanted, "only these, by their names below")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  app.add_option("-r,--runs", comparison.runs, "measured runs of each")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("-w,--warmup", comparison.warm_ups, "runs before the measured ones")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  app.add_option("--csv", csv_path,
                 "write every run to this file (the source's scripts/plot_compare.py draws it)")
      ->type_name("FILE");
  app.add_option("--html", page_path, "write the table with bars as a page that opens offline")
      ->type_name("FILE");
  app.add_flag(
      "--processes", comparison.lists_processes,
      "also list the processes that made large allocations, by one more run that is not measured");
  app.add_flag("--json", json, "print JSON instead of the table");
  app.footer("Allocators and their exact settings:\n" + describe_allocators());
  if (auto code = parse_with_command(app, argc, argv, comparison.command)) {
    return *code;
  }
  if (const std::string reason = unwritable({}, {csv_path, page_path}); !reason.empty()) {
    return complain(app, reason);
  }
  auto chosen = choose(app, wanted);
  if (!chosen) {
    return kBadInput;
  }
  comparison.contestants = std::move(*chosen);
  unset_settings();
  const int code = measure(comparison);
  if (const int signal = SignalsPassedOn::caught(); signal != 0 && signal != SIGINT) {
    end_by(signal);
  }
  std::erase_if(comparison.contestants,
                [](const Contestant& c) { return c.samples.empty() && c.failures == 0; });
  if (code == kBadInput || std::all_of(comparison.contestants.begin(), comparison.contestants.end(),
                                       [](const Contestant& c) { return c.samples.empty(); })) {
    return code;
  }
  if (csv_path == "-" || page_path == "-") {
    // That file alone goes to stdout.
  } else if (json) {
    nlohmann::json answer = as_json(comparison.contestants, comparison.command);
    if (comparison.lists_processes) {
      answer["processes"] = as_json(comparison.processes);
    }
    std::printf("%s\n", json_text(answer, 2).c_str());
  } else {
    const std::string names = wanted.empty() ? left_out(comparison.contestants) : "";
    print(comparison, names);
  }
  std::string error;  // after the table, which a full disk then does not take away
  if (!csv_path.empty() && !write_text(csv_path, as_csv(comparison.contestants), error)) {
    return complain(app, error);
  }
  if (!page_path.empty() &&
      !write_text(page_path, as_page(comparison.contestants, comparison.command), error)) {
    return complain(app, error);
  }
  return code;
}

}  // namespace memo::cli
