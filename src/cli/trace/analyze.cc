// `memomalloc analyze`: what the engine would make of a recorded stream. Cold.
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "dsa/csv.h"
#include "dsa/planner.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"
#include "src/cli/base/loop_words.h"
#include "src/cli/base/ticker.h"
#include "src/cli/trace/rehearsal.h"

namespace memo::cli {
namespace {

// Threads without a period: of call sites, whose sizes follow rules.
using Changing = std::map<std::uint32_t, Period>;

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

nlohmann::ordered_json json_of(std::uint32_t thread, const Analysis& analysis,
                               const Changing& changes) {
  nlohmann::ordered_json period;  // null
  if (analysis.period) {
    period = {{"first", analysis.period->first},
              {"length", analysis.period->length},
              {"unroll", analysis.period->unroll}};
  }
  nlohmann::ordered_json changing;  // null
  if (const auto at = changes.find(thread); at != changes.end()) {
    changing = {{"first", at->second.first}, {"length", at->second.length}};
  }
  nlohmann::ordered_json phases = nlohmann::ordered_json::array();
  for (const PhaseSpan& span : analysis.phases) {
    phases.push_back({{"phase", span.phase == Phase::kReady ? "ready" : name_of(span.phase)},
                      {"first", span.from}});
  }
  nlohmann::ordered_json iterations = nlohmann::ordered_json::array();
  for (const IterationBytes& one : analysis.iterations) {
    iterations.push_back({one.asked, one.planned, one.at_hand, one.fresh});
  }
  const Trials& trials = analysis.trials;
  nlohmann::ordered_json counters;
#define COUNTER(name, unit, help) counters[#name] = analysis.counters.name.get();
#include "src/base/counters.def"
#undef COUNTER
  return {{"thread", thread},
          {"allocations", analysis.allocations},
          {"period", period},
          {"changing_shapes", changing},
          {"unplanned_period", analysis.unplanned},
          {"repeats", analysis.repeats},
          {"lower_bound", analysis.lower_bound},
          {"height", analysis.height},
          {"wrapping", analysis.wrapping},
          {"left_out", analysis.left_out},
          {"served_bytes", analysis.served_bytes},
          {"bytes", analysis.bytes},
          {"bytes_since_lock", analysis.bytes_since_lock},
          {"locked_after", analysis.locked_after},
          {"plans", analysis.plans},
          {"plan_seconds", analysis.plan_seconds},
          {"plan_changes", analysis.plan_changes},
          {"shapes", analysis.counters.shapes.get()},
          {"phases", phases},
          {"iterations", iterations},
          {"trials",
           {{"begun", trials.begun}, {"lost", trials.lost}, {"lost_bytes", trials.lost_bytes}}},
          {"counters", counters}};
}

void print_json(const Analyses& analyses, const Changing& changes) {
  nlohmann::ordered_json threads = nlohmann::ordered_json::array();
  for (const auto& [thread, analysis] : analyses) {
    threads.push_back(json_of(thread, analysis, changes));
  }
  std::printf("%s\n", nlohmann::ordered_json{{"threads", threads}}.dump().c_str());
}

// What to say of a thread that no plan was made for.
std::string without_period(const Analysis& analysis, const Period* changing) {
  if (analysis.allocations == 0) {
    return "no block as large as --threshold";
  }
  if (changing != nullptr) {
    std::string text =
        "the same " + std::to_string(changing->length) +
        " call sites again and again, with sizes that follow from the first: a plan for "
        "each shape";
    if (analysis.served_bytes != 0) {
      char served[64];
      std::snprintf(served, sizeof served, "; %.2f %% of all bytes served",
                    share(analysis.served_bytes, analysis.bytes));
      text += served;
    }
    return text;
  }
  if (analysis.unplanned > 0) {
    return "repeats every " + std::to_string(analysis.unplanned) +
           " calls, but there was no plan in time; try a longer --plan-time, or another --planner";
  }
  const StandingWords& is = analysis.standing;
  return loop_words(is.evidence, is.verdict, is.next, analysis.loop);
}

void print_table(const Analyses& analyses, const Changing& changes) {
  if (analyses.empty()) {
    std::puts("the trace has no allocations; was it recorded in the process that allocates?");
    return;
  }
  std::printf("%6s %11s %8s %8s %8s %10s %14s %8s %9s %9s\n", "thread", "allocations", "first",
              "length", "locked", "height MiB", "height/bound", "wrapping", "served %", "of all %");
  for (const auto& [thread, analysis] : analyses) {
    if (!analysis.period) {
      const auto changing = changes.find(thread);
      std::printf("%6u %11llu %s\n", thread, static_cast<unsigned long long>(analysis.allocations),
                  without_period(analysis, changing != changes.end() ? &changing->second : nullptr)
                      .c_str());
      continue;
    }
    std::printf("%6u %11llu %8u %8u %8llu %10.2f %14.4f %8u %9.2f %9.2f\n", thread,
                static_cast<unsigned long long>(analysis.allocations), analysis.period->first,
                analysis.period->length, static_cast<unsigned long long>(analysis.locked_after),
                static_cast<double>(analysis.height) / (1 << 20),
                share(analysis.height, analysis.lower_bound) / 100, analysis.wrapping,
                share(analysis.served_bytes, analysis.bytes_since_lock),
                share(analysis.served_bytes, analysis.bytes));
  }
}

// The thread with the most bytes served, whose problem is worth writing; null if no thread has a
// period.
const Analysis* main_thread(const Analyses& analyses) {
  const Analysis* best = nullptr;
  for (const auto& [thread, analysis] : analyses) {
    if (analysis.period && (best == nullptr || analysis.served_bytes > best->served_bytes)) {
      best = &analysis;
    }
  }
  return best;
}

// Reads the trace and rehearses it. Returns "" or "file:line: reason".
std::string analyze_trace(const std::string& path, const Rehearsal& how, Analyses& analyses,
                          Changing& changes) {
  const Ticker ticker("analyzing " + path);
  Streams streams;
  if (std::string error = read_streams(path, how.threshold, streams); !error.empty()) {
    return error;
  }
  if (!rehearse(streams, how, analyses)) {
    return path + ":0: there are not enough addresses for its blocks; `ulimit -v` may be too low";
  }
  for (const auto& [thread, stream] : streams) {
    if (Ticker::stop()->load()) {
      break;
    }
    if (!analyses[thread].period) {
      if (const auto input = find_changing_shapes(stream.allocations)) {
        changes[thread] = input->period;
      }
    }
  }
  return {};
}

dsa::CsvTable table_of(const dsa::Problem& problem) {
  dsa::CsvTable table{problem, {}};
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    table.ids.push_back(std::to_string(i));
  }
  return table;
}

}  // namespace

int analyze(int argc, char** argv) {
  std::string path;
  std::string problem_path;
  Rehearsal how;
  how.stop = Ticker::stop();
  bool as_json = false;
  CLI::App app(
      "Tells what the library would do with a recorded trace, a line for each thread: which calls\n"
      "repeat, how high the slab would be, and how much would be served.\n"
      "memomalloc run --trace-file trace.csv -- python infer.py; memomalloc analyze trace.csv");
  app.add_option("TRACE", path, kTracePath)->required();
  app.add_option("--threshold", how.threshold, "smallest block that is managed; takes K, M, G")
      ->transform(bytes())
      ->type_name("SIZE")
      ->default_str("64K");
  app.add_option("--planner", how.planner, "a name from `memomalloc planners`")
      ->type_name("NAME")
      ->group(kAdvanced)
      ->capture_default_str();
  app.add_option("--plan-time", how.plan_milliseconds, "most time for each plan")
      ->type_name("MS")
      ->group(kAdvanced)
      ->capture_default_str();
  app.add_flag("--recorded", how.recorded,
               "decide as a recording run does, which notes the call stack of every call")
      ->group(kAdvanced);
  app.add_flag("--json", as_json, "as JSON, with the counters of each thread");
  app.add_option("--problem", problem_path,
                 "write the problem of the thread that is served most, for `memomalloc plan`")
      ->type_name("FILE")
      ->group(kAdvanced);
  app.footer(
      "Columns:\n"
      "  allocations    large blocks that the thread asked for\n"
      "  first, length  the call at which the repeating part begins, and how many calls it has\n"
      "  locked         calls until the library relied on the repeat\n"
      "  height MiB     of the slab; height/bound: 1 is the least possible\n"
      "  wrapping       blocks that are freed in the next iteration only\n"
      "  served %       share of the bytes since then; of all %: of all bytes of the thread");
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  how.threshold = std::max<std::uint64_t>(how.threshold, 1);  // as the library takes it
  if (dsa::find_planner(how.planner) == nullptr) {
    return complain(app,
                    "there is no planner '" + how.planner + "'; `memomalloc planners` lists them");
  }
  std::string reason = unwritable({path}, {problem_path});
  if (!reason.empty()) {
    return complain(app, reason);
  }
  Analyses analyses;
  Changing changes;
  if (const std::string error = analyze_trace(path, how, analyses, changes); !error.empty()) {
    return refuse(error, kHowToRecord);
  }
  if (Ticker::stop()->load()) {
    return complain(app, "stopped before all threads were analyzed");
  }
  if (!problem_path.empty()) {
    const Analysis* chosen = main_thread(analyses);
    if (chosen == nullptr) {
      complain(app,
               "no thread has a period, so there is no problem to write; record more iterations, "
               "or try a lower --threshold");
      return kNo;
    }
    if (!write_text(problem_path, dsa::format_csv(table_of(chosen->problem), nullptr), reason)) {
      return complain(app, reason);
    }
  }
  if (problem_path != "-") {
    as_json ? print_json(analyses, changes) : print_table(analyses, changes);
  }
  return kDone;
}

}  // namespace memo::cli
