// `memomalloc schedule`: a graph in, the order of its nodes with the lowest peak out, and the plan
// for that order. Cold.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "dsa/planner.h"
#include "dsa/validate.h"
#include "schedule/json.h"
#include "schedule/schedule.h"
#include "schedule/validate.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"

namespace memo::cli {
namespace {

// The plan has what the order leaves of the time: at least this share and, of a short time, up to
// half, since a plan near the bound takes about 4 s per million operators.
constexpr double kShareOfPlan = 0.1;
constexpr double kPlanPerNode = 4e-6;

struct Arguments {
  std::string graph;
  std::string output;
  std::string strategy = "portfolio";
  std::string planner = "portfolio";
  double seconds = 10;
  std::uint64_t seed = 1;
  bool coalesce = false;
  bool json = false;
  bool list = false;
};

struct Report {
  schedule::Graph graph;
  schedule::Outcome outcome;
  schedule::Bytes resident = 0;
  schedule::Bytes uncoalesced = 0;  // peak of the same order without overwriting
  std::optional<dsa::Plan> plan;
};

double in_mebibytes(schedule::Bytes bytes) {
  return static_cast<double>(bytes) / 1048576.0;
}

void print_json(const Arguments& arguments, const Report& report) {
  const schedule::Outcome& outcome = report.outcome;
  nlohmann::ordered_json root{{"graph", report.graph.name},
                              {"nodes", report.graph.nodes.size()},
                              {"strategy", arguments.strategy},
                              {"found_by", outcome.found_by},
                              {"coalesce", arguments.coalesce},
                              {"resident", report.resident},
                              {"framework_peak", outcome.framework_peak},
                              {"peak", outcome.peak},
                              {"lower_bound", outcome.lower_bound},
                              {"optimal", outcome.optimal},
                              {"coalesce_saving", report.uncoalesced - outcome.peak},
                              {"seconds", outcome.seconds}};
  root["height"] = report.plan ? nlohmann::json(report.plan->height) : nlohmann::json();
  std::cout << root.dump() << "\n";
}

// What the search came to, in two sentences.
std::string result_of(const schedule::Outcome& outcome) {
  char text[256];
  if (outcome.peak < outcome.framework_peak) {
    std::snprintf(
        text, sizeof text, "The order found needs %.2f MiB, %.1f %% less than the given one.",
        in_mebibytes(outcome.peak),
        100.0 * (1.0 - in_mebibytes(outcome.peak) / in_mebibytes(outcome.framework_peak)));
  } else {
    std::snprintf(text, sizeof text, "The given order is kept. It needs %.2f MiB.",
                  in_mebibytes(outcome.peak));
  }
  std::string result = text;
  if (outcome.optimal) {
    return result + " No order needs less.";
  }
  std::snprintf(text, sizeof text,
                " Whether another needs less is open; none needs less than %.2f MiB.",
                in_mebibytes(outcome.lower_bound));
  return result + text;
}

void print_text(const Arguments& arguments, const Report& report) {
  const schedule::Outcome& outcome = report.outcome;
  const auto row = [](const char* what, schedule::Bytes bytes, const std::string& note = {}) {
    std::printf("  %-18s %12.2f MiB%s%s\n", what, in_mebibytes(bytes), note.empty() ? "" : "  ",
                note.c_str());
  };
  std::printf("%s\n\n", result_of(outcome).c_str());
  row("given order", outcome.framework_peak);
  row("order found", outcome.peak, "by " + outcome.found_by);
  row("lower bound", outcome.lower_bound);
  if (arguments.coalesce) {
    row("overwriting saves", report.uncoalesced - outcome.peak);
  }
  if (report.plan) {
    row("memory plan", report.plan->height,
        report.plan->height == outcome.peak ? "no more than the order needs" : "");
  }
  row("weights and inputs", report.resident, "held all the time, and not counted above");
  std::printf("\n%s: %zu operators, %zu tensors; searched for %.2f s\n",
              printable(report.graph.name).c_str(), report.graph.nodes.size(),
              report.graph.tensors.size(), outcome.seconds);
  if (!report.plan) {
    std::printf("No memory plan was found in the time; --seconds gives it more.\n");
  }
}

int list_strategies() {
  for (const schedule::Strategy& strategy : schedule::strategies()) {
    std::printf("%-10.*s %-10s %.*s\n", static_cast<int>(strategy.name.size()),
                strategy.name.data(), strategy.exact ? "exact" : "",
                static_cast<int>(strategy.source.size()), strategy.source.data());
  }
  return kDone;
}

// A line on a terminal that each improvement overwrites.
schedule::Options options_of(const Arguments& arguments, std::size_t nodes) {
  schedule::Options options;
  options.seconds =
      arguments.seconds -
      std::min(arguments.seconds / 2, std::max(arguments.seconds * kShareOfPlan,
                                               static_cast<double>(nodes) * kPlanPerNode));
  options.seed = arguments.seed;
  options.coalesce = arguments.coalesce;
  if (isatty(STDERR_FILENO) != 0 && arguments.seconds > 2) {
    options.progress = [](std::string_view by, schedule::Bytes peak, schedule::Bytes bound) {
      std::fprintf(stderr, "\r\033[Kpeak %.2f MiB (%.*s), bound %.2f MiB", in_mebibytes(peak),
                   static_cast<int>(by.size()), by.data(), in_mebibytes(bound));
    };
  }
  return options;
}

int run_schedule(const CLI::App& app, const Arguments& arguments) {
  std::string reason = unwritable({arguments.graph}, {arguments.output});
  if (!reason.empty()) {
    return complain(app, reason);
  }
  const std::optional<std::string> text = read_text(arguments.graph, reason);
  if (!text) {
    return refuse(reason, kHowToExport);
  }
  schedule::GraphError error;
  std::optional<schedule::Graph> graph = schedule::read_graph(*text, error);
  if (!graph) {
    return refuse(arguments.graph + ":" + std::to_string(error.line) + ": " + error.reason,
                  kHowToExport);
  }
  Report report;
  report.graph = std::move(*graph);
  const schedule::Options options = options_of(arguments, report.graph.nodes.size());
  report.outcome = schedule::schedule(report.graph, arguments.strategy, options);
  if (options.progress) {
    std::fputs("\r\033[K", stderr);
  }
  const schedule::Order& order = report.outcome.order;
  const schedule::Verdict verdict = schedule::validate(report.graph, order, arguments.coalesce);
  if (!verdict || verdict.peak != report.outcome.peak) {
    std::fprintf(stderr,
                 "memomalloc schedule: the order found is refused: %s; please report this graph\n",
                 verdict ? "its peak is not as told" : printable(verdict.reason).c_str());
    return kNo;
  }
  report.resident = verdict.resident;
  report.uncoalesced =
      arguments.coalesce ? schedule::validate(report.graph, order, false).peak : verdict.peak;
  const schedule::Placement placed = schedule::placement(report.graph, order, arguments.coalesce);
  report.plan = report.outcome.plan;
  if (!report.plan || !dsa::validate(placed.problem, *report.plan)) {
    dsa::Options planning;
    planning.seconds = std::max(0.0, arguments.seconds - report.outcome.seconds);
    planning.seed = arguments.seed;
    report.plan = dsa::find_planner(arguments.planner)->run(placed.problem, planning).plan;
  }
  if (report.plan && !dsa::validate(placed.problem, *report.plan)) {
    report.plan.reset();
  }
  if (!arguments.output.empty() &&
      !write_text(arguments.output,
                  schedule::write_order(report.graph, report.outcome, arguments.coalesce,
                                        report.plan ? &*report.plan : nullptr),
                  reason)) {
    return complain(app, reason);
  }
  if (arguments.output == "-") {  // the order alone, for whom reads it
    return report.plan ? kDone : kNo;
  }
  arguments.json ? print_json(arguments, report) : print_text(arguments, report);
  return report.plan ? kDone : kNo;
}

}  // namespace

int schedule(int argc, char** argv) {
  Arguments arguments;
  CLI::App app(
      "Orders a graph's operators so that they need least memory, and plans for that order:\n"
      "memomalloc schedule graph.json -o order.json\n"
      "The source's scripts/export_graph.py writes a graph from torch or ONNX, and its\n"
      "docs/file-formats.md has the format.");
  app.add_option("GRAPH", arguments.graph, "the graph, as JSON; -: standard input");
  app.add_option("-o,--output", arguments.output, "write the order and the offsets as JSON")
      ->type_name("FILE");
  app.add_option("--strategy", arguments.strategy, "how to search (see --strategies)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--strategies", arguments.list, "list the strategies, and end");
  app.add_option("--planner", arguments.planner,
                 "how to place the tensors (see `memomalloc planners`)")
      ->type_name("NAME")
      ->group(kAdvanced)
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "most time for the order and its plan")
      ->check(not_negative())
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "seed of the strategies that draw at random")
      ->check(not_negative())
      ->group(kAdvanced)
      ->capture_default_str();
  app.add_flag("--coalesce", arguments.coalesce,
               "let an element-wise operator overwrite an input that is needed no more");
  app.add_flag("--json", arguments.json, "print one line of JSON");
  if (const auto code = parse(app, argc, argv)) {
    return *code;
  }
  if (arguments.list) {
    return list_strategies();
  }
  if (arguments.graph.empty()) {
    return complain(app, "which graph? " + help_of(app));
  }
  if (schedule::find_strategy(arguments.strategy) == nullptr) {
    return complain(app,
                    "there is no strategy '" + arguments.strategy + "'; --strategies lists them");
  }
  if (dsa::find_planner(arguments.planner) == nullptr) {
    return complain(
        app, "there is no planner '" + arguments.planner + "'; `memomalloc planners` lists them");
  }
  return run_schedule(app, arguments);
}

}  // namespace memo::cli
