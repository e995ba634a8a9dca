// Every planner on every instance: height over bound and seconds, as a table and as CSV. Cold.
//
//   planner_quality [--seconds S] [--planner NAME] [--csv FILE] [--large N [--only KIND]]
//                   [PROBLEM.csv...]
//   planner_quality --write KIND --large N [--seed SEED] > PROBLEM.csv
//
// Without problems it takes those of tests/golden/instances and generates perfect packings of 100,
// 200 and 400 buffers; --large takes generated ones of N buffers instead, by the portfolio alone.
// Where a `minimalloc` program is found in $MINIMALLOC or on the PATH, it runs beside ours within
// the capacity in the file's name (A.1048576.csv).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "bench/planner_instances.h"
#include "dsa/csv.h"
#include "dsa/planner.h"
#include "dsa/validate.h"

namespace {

namespace fs = std::filesystem;

struct Arguments {
  double seconds = 1;
  std::string planner;
  std::string csv;
  std::size_t large = 0;  // buffers
  std::string only;       // names begin so
  std::string write;      // a kind to write as CSV
  std::uint64_t seed = 1;
  std::vector<std::string> files;
};

struct Instance {
  std::string name;
  std::string path;  // empty if generated
  dsa::Problem problem;
  std::optional<dsa::Bytes> capacity;
};

std::optional<Instance> read(const fs::path& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  dsa::CsvResult result = dsa::parse_csv(text, path.string());
  if (!result.table) {
    std::fprintf(stderr, "%s\n", result.error.c_str());
    return std::nullopt;
  }
  Instance instance{path.stem().string(), path.string(), std::move(result.table->problem), {}};
  if (const std::size_t dot = instance.name.find('.'); dot != std::string::npos) {
    const dsa::Bytes capacity = std::strtoll(instance.name.c_str() + dot + 1, nullptr, 10);
    instance.capacity = capacity > 0 ? std::optional(capacity) : std::nullopt;
  }
  return instance;
}

std::vector<Instance> instances(const Arguments& arguments) {
  std::vector<fs::path> paths(arguments.files.begin(), arguments.files.end());
  const fs::path golden = "tests/golden/instances";
  if (paths.empty() && fs::exists(golden)) {
    for (const auto& entry : fs::recursive_directory_iterator(golden)) {
      if (entry.path().extension() == ".csv") {
        paths.push_back(entry.path());
      }
    }
    std::sort(paths.begin(), paths.end());
  }
  std::vector<Instance> result;
  for (const fs::path& path : paths) {
    if (auto instance = read(path)) {
      result.push_back(std::move(*instance));
    }
  }
  if (arguments.files.empty()) {
    for (const std::size_t pieces : {100U, 200U, 400U}) {
      result.push_back(
          {"guillotine_" + std::to_string(pieces), "", bench::guillotine(pieces, pieces), {}});
    }
  }
  return result;
}

class Report {
 public:
  explicit Report(const std::string& path) {
    if (!path.empty()) {
      csv_.open(path);
      csv_ << "instance,buffers,planner,lower_bound,capacity,height,ratio,optimal,seconds\n";
    }
    std::printf("%-20s %8s %-24s %9s %10s\n", "instance", "buffers", "planner", "ratio", "seconds");
  }

  void row(const Instance& instance, std::string_view planner, bool capacity,
           const dsa::Outcome& outcome) {
    const std::string limit =
        capacity && instance.capacity ? std::to_string(*instance.capacity) : std::string();
    const double ratio =
        outcome.plan && outcome.lower_bound > 0
            ? static_cast<double>(outcome.plan->height) / static_cast<double>(outcome.lower_bound)
            : 0;
    std::printf(
        "%-20s %8zu %-24s %9.5f %10.5f %s%s\n", instance.name.c_str(),
        instance.problem.buffers.size(), std::string(planner).c_str(), ratio, outcome.seconds,
        limit.empty() ? "" : "at capacity ",
        outcome.plan ? (outcome.optimal ? "optimal" : "") : std::string(outcome.reason).c_str());
    std::fflush(stdout);
    if (csv_.is_open()) {
      csv_ << instance.name << ',' << instance.problem.buffers.size() << ',' << planner << ','
           << outcome.lower_bound << ',' << limit << ','
           << (outcome.plan ? std::to_string(outcome.plan->height) : "") << ',' << ratio << ','
           << outcome.optimal << ',' << outcome.seconds << '\n';
    }
  }

 private:
  std::ofstream csv_;
};

void run(const Instance& instance, const dsa::Planner& planner, const dsa::Options& options,
         Report& report) {
  const dsa::Outcome outcome = planner.run(instance.problem, options);
  if (outcome.plan && !dsa::validate(instance.problem, *outcome.plan)) {
    std::fprintf(stderr, "%s makes an invalid plan\n", std::string(planner.name).c_str());
    std::exit(1);
  }
  report.row(instance, planner.name, options.capacity.has_value(), outcome);
}

// The minimalloc program's wall time, if there is one; it plans within the file's capacity only.
void run_minimalloc(const Instance& instance, Report& report) {
  const char* program = std::getenv("MINIMALLOC");
  const std::string name = program != nullptr ? program : "minimalloc";
  if (std::system(("command -v '" + name + "' >/dev/null 2>&1").c_str()) != 0) {
    return;
  }
  const std::string command = "timeout 60 '" + name +
                              "' --capacity=" + std::to_string(*instance.capacity) + " --input='" +
                              instance.path + "' --output=/dev/null >/dev/null 2>&1";
  dsa::Outcome outcome;
  outcome.lower_bound = dsa::lower_bound(instance.problem);
  const auto start = std::chrono::steady_clock::now();
  const bool good = std::system(command.c_str()) == 0;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  outcome.reason = "failed or ran out of 60 s";
  if (good) {
    outcome.plan = dsa::Plan{{}, *instance.capacity};
  }
  report.row(instance, "minimalloc", true, outcome);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--seconds" && more) {
      arguments.seconds = std::strtod(argv[++i], nullptr);
    } else if (word == "--planner" && more) {
      arguments.planner = argv[++i];
    } else if (word == "--csv" && more) {
      arguments.csv = argv[++i];
    } else if (word == "--large" && more) {
      arguments.large = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--only" && more) {
      arguments.only = argv[++i];
    } else if (word == "--write" && more) {
      arguments.write = argv[++i];
    } else if (word == "--seed" && more) {
      arguments.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word.starts_with("-")) {
      std::fprintf(stderr,
                   "usage: planner_quality [--seconds S] [--planner NAME] [--csv FILE] "
                   "[--large N [--only KIND]] [PROBLEM.csv...]\n"
                   "       planner_quality --write KIND --large N [--seed SEED]\n");
      std::exit(word == "--help" ? 0 : 2);
    } else {
      arguments.files.push_back(word);
    }
  }
  return arguments;
}

struct Kind {
  const char* name;
  dsa::Problem (*make)(std::size_t count, std::uint64_t seed);
};

constexpr Kind kKinds[] = {
    {"lives", bench::lives},
    {"uniform_100",
     [](std::size_t count, std::uint64_t seed) { return bench::uniform(count, 100, seed); }},
    {"uniform_1000",
     [](std::size_t count, std::uint64_t seed) { return bench::uniform(count, 1000, seed); }},
    {"uniform_100000",
     [](std::size_t count, std::uint64_t seed) { return bench::uniform(count, 100000, seed); }},
    {"log_normal", bench::log_normal_lives},
    {"iterations",
     [](std::size_t count, std::uint64_t seed) { return bench::iterations(count, 100, seed); }},
    {"guillotine",
     [](std::size_t count, std::uint64_t seed) { return bench::guillotine(count, seed); }},
    {"guillotine_tall",
     [](std::size_t count, std::uint64_t seed) { return bench::guillotine(count, seed, 0.2); }},
    {"guillotine_flat",
     [](std::size_t count, std::uint64_t seed) { return bench::guillotine(count, seed, 0.8); }},
    {"guillotine_60_times",
     [](std::size_t count, std::uint64_t seed) { return bench::guillotine(count, seed, 0.5, 60); }},
    {"wheels", [](std::size_t count, std::uint64_t seed) { return bench::wheels(count, seed); }},
    {"wrapped", bench::wrapped},
};

void run_large(const Arguments& arguments, Report& report) {
  for (const Kind& kind : kKinds) {
    const std::string full = std::string(kind.name) + "_" + std::to_string(arguments.large);
    if (arguments.only.empty() || full.starts_with(arguments.only)) {
      run({full, "", kind.make(arguments.large, arguments.seed), {}},
          *dsa::find_planner(arguments.planner.empty() ? "portfolio" : arguments.planner),
          {.seconds = std::max(10.0, arguments.seconds)}, report);
    }
  }
}

int write(const Arguments& arguments) {
  for (const Kind& kind : kKinds) {
    if (arguments.write == kind.name) {
      dsa::CsvTable table{kind.make(arguments.large, arguments.seed), {}};
      for (std::size_t i = 0; i < table.problem.buffers.size(); ++i) {
        table.ids.push_back(std::to_string(i));
      }
      std::fputs(dsa::format_csv(table, nullptr).c_str(), stdout);
      return 0;
    }
  }
  std::fprintf(stderr, "planner_quality: there is no kind '%s'\n", arguments.write.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  if (!arguments.write.empty()) {
    return write(arguments);
  }
  Report report(arguments.csv);
  if (arguments.large > 0) {
    run_large(arguments, report);
    return 0;
  }
  for (const Instance& instance : instances(arguments)) {
    for (const dsa::Planner& planner : dsa::planners()) {
      if (!arguments.planner.empty() && planner.name != arguments.planner) {
        continue;
      }
      dsa::Options options{.seconds = arguments.seconds};
      run(instance, planner, options, report);
      if (instance.capacity && planner.exact) {
        options.capacity = instance.capacity;
        run(instance, planner, options, report);
      }
    }
    if (instance.capacity && !instance.path.empty() && arguments.planner.empty()) {
      run_minimalloc(instance, report);
    }
  }
  return 0;
}
