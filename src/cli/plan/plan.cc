// `memomalloc plan`: offsets for the buffers of a problem file. Cold.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "dsa/csv.h"
#include "dsa/planner.h"
#include "dsa/validate.h"
#include "planner/mip_model.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"
#include "src/cli/base/ticker.h"
#include "src/cli/plan/plan_table.h"
#include "src/cli/trace/heap_map.h"
#include "src/cli/trace/snapshot_worth.h"

namespace memo::cli {
namespace {

constexpr const char* kAbout =
    "Gives each buffer of a problem a place, so that all need as little memory as possible:\n"
    "memomalloc plan problem.csv -o plan.csv\n"
    "A problem is CSV with the columns id,lower,upper,size. A buffer lives from step lower to\n"
    "just before step upper. Columns that may follow: alignment; gaps (a-b c-d: when the buffer\n"
    "is dead); offset (where it must lie). A snapshot of torch's GPU allocator is a problem, "
    "too\n"
    "(torch.cuda.memory._dump_snapshot). Planning ends at the least possible height, or when "
    "the\n"
    "time is up. With --capacity it ends at the first plan that fits; exit code 1: none was "
    "found.";

struct PlanRequest : TableRequest {
  std::string planner = "portfolio";
  std::string output;
  std::string svg;
  std::string check;
  std::string model;
  dsa::Options options;
  bool json = false;
  bool compare = false;
};

// Why there is no plan, and what may help.
int no_plan(const CLI::App& app, std::string_view reason) {
  complain(app, "no plan: " + std::string(reason) +
                    "; try more --seconds or --capacity, or another --planner");
  return kNo;
}

// One planner's result, as a row of --compare and as --json.
nlohmann::ordered_json as_json(const dsa::Planner& planner, const Table& table,
                               const dsa::Outcome& outcome) {
  nlohmann::ordered_json row{{"planner", planner.name},
                             {"buffers", table.problem.buffers.size()},
                             {"lower_bound", outcome.lower_bound},
                             {"height", nullptr},
                             {"seconds", outcome.seconds},
                             {"optimal", outcome.optimal}};
  if (table.device) {
    row["device"] = table.device->number;
    row["reserved"] = table.device->reserved;
    row["alive"] = table.device->alive;
    row["alive_before"] = table.device->before;
  }
  if (outcome.plan) {
    row["height"] = outcome.plan->height;
  } else {
    row["reason"] = outcome.reason;
    row["infeasible"] = outcome.infeasible;
  }
  return row;
}

// Which buffers a verdict is about: "(a and b)".
std::string pair_of(const Table& table, const dsa::Verdict& verdict) {
  return printable("(" + table.ids[verdict.i] + " and " + table.ids[verdict.j] + ")");
}

double ratio(dsa::Bytes height, dsa::Bytes bound) {
  return bound > 0 ? static_cast<double>(height) / static_cast<double>(bound) : 1;
}

// A plan is shown or written only after the validator has accepted it.
dsa::Outcome run(const dsa::Planner& planner, const Table& table, dsa::Options options) {
  const Ticker ticker("planning with " + std::string(planner.name));
  options.stop = Ticker::stop();
  dsa::Outcome outcome = planner.run(table.problem, options);
  if (outcome.plan) {
    if (const dsa::Verdict verdict = dsa::validate(table.problem, *outcome.plan); !verdict) {
      std::fprintf(stderr, "memomalloc plan: the planner %s made a wrong plan: %s %s\n",
                   std::string(planner.name).c_str(), verdict.reason.c_str(),
                   pair_of(table, verdict).c_str());
      outcome.plan.reset();
      outcome.reason = "the plan is not valid";
    }
  }
  return outcome;
}

int compare(const PlanRequest& request, const Table& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!request.json) {
    std::printf("%-26s %20s %9s %10s  %s\n", "planner", "height", "ratio", "seconds", "");
  }
  bool any = false;
  for (const dsa::Planner& planner : dsa::planners()) {
    const dsa::Outcome outcome = run(planner, table, request.options);
    any |= outcome.plan.has_value();
    if (request.json) {
      rows.push_back(as_json(planner, table, outcome));
    } else if (outcome.plan) {
      std::printf("%-26s %20lld %9.5f %10.6f  %s\n", std::string(planner.name).c_str(),
                  static_cast<long long>(outcome.plan->height),
                  ratio(outcome.plan->height, outcome.lower_bound), outcome.seconds,
                  outcome.optimal ? "optimal" : "");
    } else {
      std::printf("%-26s %20s %9s %10.6f  %s\n", std::string(planner.name).c_str(), "-", "-",
                  outcome.seconds, std::string(outcome.reason).c_str());
    }
    std::fflush(stdout);
  }
  if (request.json) {
    std::printf("%s\n", rows.dump(2).c_str());
  } else {
    std::printf("%-26s %20lld\n", "lower bound",
                static_cast<long long>(dsa::lower_bound(table.problem)));
  }
  return any ? kDone : kNo;
}

// Exit code 0 if the file's offsets are a valid plan for the problem.
int check(const CLI::App& app, const PlanRequest& request, const Table& table) {
  TableRequest of_plan = request;
  of_plan.device.reset();  // a plan's file has none
  const std::optional<Table> plan_table = read_table(request.check, of_plan);
  if (!plan_table) {
    return kBadInput;
  }
  std::unordered_map<std::string, std::optional<dsa::Offset>> offsets;
  for (std::size_t i = 0; i < plan_table->ids.size(); ++i) {
    offsets[plan_table->ids[i]] = plan_table->problem.buffers[i].fixed;
  }
  dsa::Plan plan;
  for (std::size_t i = 0; i < table.ids.size(); ++i) {
    const auto found = offsets.find(table.ids[i]);
    if (found == offsets.end() || !found->second) {
      return complain(app, request.check + ": no offset for buffer '" + table.ids[i] +
                               "'; `memomalloc plan PROBLEM --output PLAN` writes a plan");
    }
    plan.offsets.push_back(*found->second);
    plan.height = std::max(plan.height, *found->second + table.problem.buffers[i].size);
  }
  if (const dsa::Verdict verdict = dsa::validate(table.problem, plan); !verdict) {
    std::printf("invalid: %s %s\n", verdict.reason.c_str(), pair_of(table, verdict).c_str());
    return kNo;
  }
  const dsa::Bytes bound = dsa::lower_bound(table.problem);
  std::printf("valid: height %lld, lower bound %lld, ratio %.5f\n",
              static_cast<long long>(plan.height), static_cast<long long>(bound),
              ratio(plan.height, bound));
  return kDone;
}

// The mixed-integer program of the problem, for other solvers.
int write_model(const CLI::App& app, const PlanRequest& request, const Table& table) {
  const bool lp = request.model.ends_with(".lp");
  if (!lp && !request.model.ends_with(".mps")) {
    return complain(app,
                    "--write-model chooses the format by the file's name: end it in .lp or .mps");
  }
  const dsa::Outcome known = dsa::find_planner("skyline")->run(table.problem, request.options);
  if (!known.plan) {
    return no_plan(app, known.reason);
  }
  const dsa::MipModel mip(dsa::Model(table.problem), known.plan->height);
  std::string error;
  if (!write_text(request.model, lp ? dsa::format_lp(mip) : dsa::format_mps(mip), error)) {
    return complain(app, error);
  }
  std::printf("%s: %zu columns, %zu rows\n", request.model.c_str(), mip.columns.size(),
              mip.rows.size());
  return kDone;
}

void print(const Table& table, const dsa::Planner& planner, const dsa::Outcome& outcome) {
  std::printf("%s: %zu buffers in %s, lower bound %s, ratio %.5f%s, %.4f s\n",
              std::string(planner.name).c_str(), table.problem.buffers.size(),
              human_bytes(outcome.plan->height).c_str(), human_bytes(outcome.lower_bound).c_str(),
              ratio(outcome.plan->height, outcome.lower_bound), outcome.optimal ? " (optimal)" : "",
              outcome.seconds);
}

// Of a snapshot: what the plan, or one that respects more, would be worth.
std::optional<SnapshotWorth> worth_of_plan(const Table& table, const dsa::Outcome& outcome) {
  if (!table.device || !outcome.plan) {
    return std::nullopt;
  }
  return worth_of(*table.device, static_cast<std::uint64_t>(outcome.plan->height));
}

int plan_one(const CLI::App& app, const PlanRequest& request, const Table& table) {
  const dsa::Planner* planner = dsa::find_planner(request.planner);
  if (planner == nullptr) {
    return complain(
        app, "there is no planner '" + request.planner + "'; `memomalloc planners` lists them");
  }
  const dsa::Outcome outcome = run(*planner, table, request.options);
  const std::optional<SnapshotWorth> worth = worth_of_plan(table, outcome);
  if (request.json) {
    nlohmann::ordered_json row = as_json(*planner, table, outcome);
    if (worth) {
      row["streams"] = worth->streams;
      row["height_by_stream"] = worth->by_stream;
      row["iterations"] = worth->iterations;
      row["calls_by_iteration"] = worth->calls;
      row["height_by_iteration"] = worth->by_iteration;
      row["sentence"] = worth_sentence(*worth);
    }
    std::printf("%s\n", row.dump().c_str());
  }
  if (!outcome.plan) {
    return no_plan(app, outcome.reason);
  }
  std::string error;
  if (!request.output.empty() &&
      !write_text(request.output, dsa::format_csv(table, &*outcome.plan), error)) {
    return complain(app, error);
  }
  if (!request.svg.empty()) {
    const HeapMapText text{request.problem + ", " + request.planner, table.ids};
    if (!write_text(request.svg,
                    draw_heap_map(table.problem, *outcome.plan, outcome.lower_bound, text),
                    error)) {
      return complain(app, error);
    }
  }
  if (!request.quiet) {
    print(table, *planner, outcome);
    std::printf("%s", worth ? (worth_sentence(*worth) + "\n").c_str() : "");
  }
  return kDone;
}

}  // namespace

int plan(int argc, char** argv) {
  PlanRequest request;
  dsa::Bytes capacity = 0;
  CLI::App app(kAbout);
  app.add_option("PROBLEM", request.problem, "the problem; -: standard input")->required();
  app.add_option("--device", request.device,
                 "which one of a snapshot; default: that with most memory in use")
      ->type_name("NUMBER");
  app.add_option("--planner", request.planner, "a name from `memomalloc planners`")
      ->type_name("NAME")
      ->capture_default_str();
  auto* limit =
      app.add_option("--capacity", capacity, "memory that the plan must fit in; takes K, M, G")
          ->transform(bytes())
          ->type_name("SIZE");
  app.add_option("--seconds", request.options.seconds, "most time to spend")
      ->capture_default_str()
      ->check(not_negative());
  app.add_option("--seed", request.options.seed, "for searches that draw at random")
      ->check(not_negative())
      ->group(kAdvanced)
      ->capture_default_str();
  auto* output = app.add_option("-o,--output", request.output,
                                "write the plan: the problem with an offset column")
                     ->type_name("FILE");
  auto* svg = app.add_option("--svg", request.svg, "draw the plan: time across, addresses up")
                  ->type_name("FILE");
  auto* against =
      app.add_option("--check", request.check, "plan nothing: tell whether this plan file is valid")
          ->type_name("FILE")
          ->group(kAdvanced);
  auto* model =
      app.add_option("--write-model", request.model,
                     "plan nothing: write the problem as a mixed-integer program, to .lp or .mps")
          ->type_name("FILE")
          ->group(kAdvanced);
  auto* json = app.add_flag("--json", request.json, "print the result as JSON");
  app.add_flag("--compare", request.compare, "print a row for each planner")
      ->excludes(against)
      ->excludes(model);
  against->excludes(model)->excludes(limit)->excludes(json);
  model->excludes(json);
  for (const char* alone : {"--check", "--write-model", "--compare"}) {
    app.get_option(alone)->excludes(output)->excludes(svg);
  }
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  if (request.json && (request.output == "-" || request.svg == "-")) {
    return complain(app, "--json goes to standard output, as `-` does; name a file");
  }
  request.quiet = request.json || request.output == "-" || request.svg == "-";
  if (*limit) {
    request.options.capacity = capacity;
  }
  if (const std::string reason =
          unwritable({request.problem}, {request.output, request.svg, request.model});
      !reason.empty()) {
    return complain(app, reason);
  }
  const std::optional<Table> table = read_table(request.problem, request);
  if (!table) {
    return kBadInput;
  }
  if (!request.check.empty()) {
    return check(app, request, *table);
  }
  if (!request.model.empty()) {
    return write_model(app, request, *table);
  }
  return request.compare ? compare(request, *table) : plan_one(app, request, *table);
}

}  // namespace memo::cli
