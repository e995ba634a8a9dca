// `memomalloc report`: a trace, or the statistics of a process, as one page. Cold.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsa/planner.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"
#include "src/cli/base/ticker.h"
#include "src/cli/report/report_page.h"
#include "src/cli/report/report_problem.h"
#include "src/cli/trace/snapshot_worth.h"

namespace memo::cli {
namespace {

struct ReportRequest {
  std::vector<std::string> inputs;
  std::string output = "report.html";
  std::string sites;
  std::string chrome;
  std::string viz;
  std::uint64_t threshold = 65536;
  ModelOptions model;
  bool no_glibc = false;
};

// Why an input is refused, and what to do about it; no reason if it is not.
struct Refusal {
  std::string reason;  // "file:line: reason"
  std::string_view advice;
};

using SiteNames = std::map<std::uint64_t, std::string>;

// What a snapshot tells beside its trace: the names of its call stacks, and each device in words.
struct SnapshotNotes {
  bool found = false;
  SiteNames names;
  std::vector<std::string> devices;
};

// `site,symbol` lines, the site in hex as in a trace.
Refusal read_sites(const std::string& path, SiteNames& names) {
  constexpr std::string_view kHowToName = "the library writes such a file next to each trace";
  std::ifstream file(path);
  if (!file) {
    return {path + ":0: cannot be opened: " + std::strerror(errno), kHowToName};
  }
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line == "site,symbol") {
      continue;
    }
    const std::size_t comma = line.find(',');
    char* end = nullptr;
    const std::uint64_t site = std::strtoull(line.c_str(), &end, 16);
    if (comma == std::string::npos || comma == 0 || end != line.c_str() + comma) {
      return {
          path + ":" + std::to_string(number) + ": expected a stack hash in hex, a comma, a name",
          kHowToName};
    }
    names[site] = line.substr(comma + 1);
  }
  return {};
}

bool begins_like_json(const std::string& path) {
  std::ifstream file(path);
  char first = 0;
  return file >> first && first == '{';
}

Refusal read_notes(const std::string& path, SnapshotNotes& notes) {
  std::string error;
  std::optional<Snapshot> snapshot = path == "-" ? std::nullopt : load_snapshot(path, error);
  if (!error.empty()) {
    return {error, kHowToRecord};
  }
  if (snapshot) {
    notes.found = true;
    notes.names = std::move(snapshot->sites);
    for (const SnapshotDevice& device : snapshot->devices) {
      notes.devices.push_back(describe_device(device) + "; " + worth_sentence(worth_of(device)));
    }
  }
  return {};
}

// The buffers of a planner's problem, or of a plan.
Refusal read_problem(const std::string& path, const ModelOptions& options, Report& report,
                     SiteNames& names) {
  std::string error;
  const std::optional<std::string> text = read_text(path, error);
  const dsa::CsvResult read = text ? dsa::parse_csv(*text, path) : dsa::CsvResult{{}, error};
  if (!read.table) {
    return {read.error, "`memomalloc plan --help` tells the columns"};
  }
  for (std::size_t i = 0; i < read.table->ids.size(); ++i) {
    names[i] = "buffer " + read.table->ids[i];
  }
  report.source = Report::Source::kProblem;
  ThreadMap map = map_of(*read.table, options, error);
  if (!error.empty()) {
    return {path + ":0: " + error, "`memomalloc plan` makes a plan of the problem without offsets"};
  }
  if (!map.blocks.empty()) {
    report.maps.push_back(std::move(map));
  }
  return {};
}

Refusal read_inputs(const ReportRequest& request, Report& report, std::string& trace,
                    SnapshotNotes& notes) {
  constexpr std::string_view kOnlyTraces =
      "standard input is read as a trace; a problem and statistics are read from files";
  for (const std::string& path : request.inputs) {
    if (std::error_code none; std::filesystem::is_fifo(path, none)) {
      return {path + ":0: this is a pipe, and what it brings cannot be read twice", kOnlyTraces};
    }
    if (begins_like_json(path)) {
      if (report.statistics.is_object()) {
        return {path + ":0: these are second statistics, and a page holds one process'",
                "make a page for each"};
      }
      std::ifstream file(path);
      report.statistics = nlohmann::json::parse(file, nullptr, false);
      if (!report.statistics.is_object() || !report.statistics.contains("fallback")) {
        return {path + ":1: this is not the whole JSON of a process' statistics",
                "`memomalloc run --stats-file FILE -- COMMAND` writes it"};
      }
      continue;
    }
    if (!trace.empty()) {
      return {path + ":0: this is a second trace, and a page holds one", "make a page for each"};
    }
    trace = path;
    if (begins_like_problem(path)) {
      if (Refusal refusal = read_problem(path, request.model, report, notes.names);
          !refusal.reason.empty()) {
        return refusal;
      }
      continue;
    }
    if (Refusal refusal = read_notes(path, notes); !refusal.reason.empty()) {
      return refusal;
    }
    report.source = notes.found ? Report::Source::kSnapshot : Report::Source::kTrace;
    Streams streams;
    if (std::string error = read_streams(path, request.threshold, streams); !error.empty()) {
      return {error, path == "-" ? kOnlyTraces : kHowToRecord};
    }
    report.maps = make_maps(streams, request.model);
  }
  return {};
}

void add_options(CLI::App& app, ReportRequest& request) {
  app.add_option(
         "FILE", request.inputs,
         "a trace (TRACE.csv, TRACE.csv.gz; -: standard input), or a snapshot of torch's GPU "
         "allocator, or a planner's problem or plan; and, or instead, statistics (--stats-file)")
      ->required();
  app.add_option("-o,--output", request.output,
                 "where the page goes; replaces a page that is there")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--threshold", request.threshold, "smallest block shown")
      ->transform(bytes())
      ->type_name("SIZE")
      ->group(kAdvanced)
      ->default_str("64K");
  app.add_option("--planner", request.model.planner, "a name from `memomalloc planners`")
      ->type_name("NAME")
      ->group(kAdvanced)
      ->capture_default_str();
  app.add_option("--seconds", request.model.seconds, "most time to plan, for each thread")
      ->check(not_negative())
      ->group(kAdvanced)
      ->capture_default_str();
  app.add_option(
         "--sites", request.sites,
         "names of the calls that allocate, lines of site,symbol; default: the trace's name "
         "and .sites, where there is such a file")
      ->group(kAdvanced)
      ->type_name("FILE");
  app.add_option("--chrome-trace", request.chrome,
                 "also write the iteration for Chrome's and Perfetto's viewers")
      ->type_name("FILE");
  app.add_option("--memory-viz", request.viz, "also write it for torch's memory_viz")
      ->type_name("FILE");
  app.add_flag("--no-glibc", request.no_glibc, "do not show how glibc places the same iteration");
}

int write_outputs(const CLI::App& app, const ReportRequest& request, const Report& report) {
  std::vector<std::pair<std::string, std::string>> files = {{request.output, report_html(report)}};
  if (!request.chrome.empty()) {
    files.emplace_back(request.chrome, chrome_trace(report.maps, report.site_name));
  }
  if (!request.viz.empty()) {
    files.emplace_back(request.viz, memory_viz_pickle(report.maps, report.site_name));
  }
  for (const auto& [path, text] : files) {
    if (std::string error; !write_text(path, text, error)) {
      return complain(app, error);
    }
    if (path != "-") {  // the page itself is what is printed
      std::printf("%s\n", path.c_str());
    }
  }
  if (std::none_of(files.begin(), files.end(),
                   [](const auto& file) { return file.first == "-"; })) {
    const Answer answer = answer_of(report);
    std::printf("%s\n%s\n", answer.what.c_str(), answer.next.c_str());
  }
  return kDone;
}

}  // namespace

int report(int argc, char** argv) {
  ReportRequest request;
  CLI::App app(
      "Draws a program's memory as a page that opens offline: memomalloc report trace.csv\n"
      "On top: what was served or saved, and what to do next. Below, from a trace: where glibc "
      "and\n"
      "where the plan place each block of an iteration, the live bytes, and the calls that "
      "allocate\n"
      "most. From statistics: what was served, and why the rest was not. From a planner's problem\n"
      "or plan: where each buffer lies. A trace is recorded with `memomalloc run --trace-file "
      "FILE`.");
  add_options(app, request);
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  if (dsa::find_planner(request.model.planner) == nullptr) {
    return complain(app, "there is no planner '" + request.model.planner +
                             "'; `memomalloc planners` lists them");
  }
  std::vector<std::string> inputs = request.inputs;
  inputs.push_back(request.sites);
  if (request.output.empty()) {
    return complain(app, "the page needs a name: -o report.html");
  }
  if (const std::string reason = unwritable(inputs, {request.output, request.chrome, request.viz});
      !reason.empty()) {
    return complain(app, reason);
  }
  SiteNames names;
  Report report;
  std::string trace;
  Ticker ticker("drawing " + request.inputs.front());
  request.model.stop = Ticker::stop();
  SnapshotNotes notes;
  Refusal refusal = read_inputs(request, report, trace, notes);
  if (!trace.empty() && request.sites.empty() && std::filesystem::exists(trace + ".sites")) {
    request.sites = trace + ".sites";  // the library writes it beside a trace
  }
  if (refusal.reason.empty() && !request.sites.empty()) {
    refusal = read_sites(request.sites, names);
  }
  if (!refusal.reason.empty()) {
    return refuse(refusal.reason, refusal.advice);
  }
  if (report.maps.empty() && !report.statistics.is_object()) {
    complain(app, trace +
                      (report.source == Report::Source::kProblem
                           ? " has no buffer"
                           : " has no block of at least the --threshold") +
                      ", so there is nothing to draw");
    return kNo;
  }
  report.title = std::filesystem::path(trace.empty() ? request.inputs.front() : trace).filename();
  report.notes = notes.devices;
  for (const std::string& device : notes.devices) {
    ticker.say(device);
  }
  names.merge(notes.names);
  report.site_name = [&](std::uint64_t site) {
    char hash[32];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(site));
    const auto found = names.find(site);
    return found != names.end() ? found->second : std::string(hash);
  };
  if (trace == "-" && !request.no_glibc) {
    ticker.say("memomalloc report: standard input is read once; without glibc's layout");
  } else if (!trace.empty() && report.source == Report::Source::kTrace &&
             !request.no_glibc) {  // the others' blocks are not glibc's
    if (const std::string note = add_glibc_layout(trace, request.threshold, report.maps);
        !note.empty()) {
      ticker.say("memomalloc report: " + note);
    }
  }
  return write_outputs(app, request, report);
}

}  // namespace memo::cli
