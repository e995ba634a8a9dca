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
#include <vector>

#include "dsa/planner.h"
#include "src/cli/arguments.h"
#include "src/cli/command.h"
#include "src/cli/files.h"
#include "src/cli/report_page.h"

namespace memo::cli {
namespace {

struct Request {
  std::vector<std::string> inputs;
  std::string output = "report.html";
  std::string sites;
  std::string chrome;
  std::string viz;
  std::uint64_t threshold = 65536;
  ModelOptions model;
  bool no_glibc = false;
};

using SiteNames = std::map<std::uint64_t, std::string>;

// `site,symbol` lines, the site in hex as in a trace. Returns "" or "file:line: reason".
std::string read_sites(const std::string& path, SiteNames& names) {
  std::ifstream file(path);
  if (!file) {
    return path + ":0: cannot be opened: " + std::strerror(errno) +
           "; the library writes it beside the trace";
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
      return path + ":" + std::to_string(number) +
             ": expected a stack hash in hex, a comma, a name";
    }
    names[site] = line.substr(comma + 1);
  }
  return "";
}

bool begins_like_json(const std::string& path) {
  std::ifstream file(path);
  char first = 0;
  return file >> first && first == '{';
}

std::string read_inputs(const Request& request, Report& report, std::string& trace) {
  for (const std::string& path : request.inputs) {
    if (begins_like_json(path)) {
      std::ifstream file(path);
      report.statistics = nlohmann::json::parse(file, nullptr, false);
      if (!report.statistics.is_object()) {
        return path +
               ":1: this is not the whole JSON of a process' statistics; write it with `memomalloc "
               "run --stats-file FILE -- COMMAND`";
      }
      continue;
    }
    if (!trace.empty()) {
      return path + ":0: this is a second trace, and a page holds one; make a page for each";
    }
    trace = path;
    Streams streams;
    if (std::string error = read_streams(path, request.threshold, streams); !error.empty()) {
      return error;
    }
    report.maps = make_maps(streams, request.model);
  }
  return "";
}

bool same_file(const std::string& left, const std::string& right) {
  std::error_code ignored;
  return left == right || std::filesystem::equivalent(left, right, ignored);
}

// "" if every output can be written and none is an input or another output, else the reason. Asked
// before the work, so that a bad name costs nothing.
std::string check_outputs(const Request& request) {
  std::vector<std::string> taken = request.inputs;
  taken.push_back(request.sites);
  for (const auto* path : {&request.output, &request.chrome, &request.viz}) {
    if (path->empty() && path != &request.output) {
      continue;
    }
    if (std::string reason = unwritable(*path); !reason.empty()) {
      return reason;
    }
    if (std::any_of(taken.begin(), taken.end(),
                    [&](const std::string& other) { return same_file(*path, other); })) {
      return *path + ": is named twice, and would be overwritten; name another file";
    }
    taken.push_back(*path);
  }
  return "";
}

void add_options(CLI::App& app, Request& request) {
  app.add_option("files", request.inputs, "TRACE.csv[.gz], statistics as JSON, or one of each")
      ->required()
      ->option_text(" ");
  app.add_option("-o,--output", request.output, "the page")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--threshold", request.threshold, "smallest block shown")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE")
      ->default_str("64K");
  app.add_option("--planner", request.model.planner, "a name from `memomalloc planners`")
      ->capture_default_str();
  app.add_option("--seconds", request.model.seconds, "most planning time for each thread")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--sites", request.sites,
                 "names of stack hashes, lines of site,symbol; default: TRACE.sites")
      ->type_name("FILE");
  app.add_option("--chrome-trace", request.chrome, "also for Chrome's and Perfetto's viewers")
      ->type_name("FILE");
  app.add_option("--memory-viz", request.viz, "also for torch's memory_viz")->type_name("FILE");
  app.add_flag("--no-glibc", request.no_glibc, "without glibc's layout of the same iteration");
}

int write_outputs(const CLI::App& app, const Request& request, const Report& report) {
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
    std::printf("%s\n", path.c_str());
  }
  return kDone;
}

}  // namespace

int report(int argc, char** argv) {
  Request request;
  CLI::App app(
      "Draws one iteration of a recorded trace as a page that opens offline: the heap map beside "
      "glibc's,\n"
      "live bytes against the lower bound, the sites that allocate most; and, from the statistics "
      "of a\n"
      "process, what was served and why the rest was not.");
  add_options(app, request);
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  if (dsa::find_planner(request.model.planner) == nullptr) {
    return complain(app, "there is no planner '" + request.model.planner +
                             "'; `memomalloc planners` lists them");
  }
  if (const std::string reason = check_outputs(request); !reason.empty()) {
    return complain(app, reason);
  }
  SiteNames names;
  Report report;
  std::string trace;
  std::string error = read_inputs(request, report, trace);
  if (request.sites.empty() && std::filesystem::exists(trace + ".sites")) {
    request.sites = trace + ".sites";  // the library writes it beside a trace
  }
  if (error.empty() && !request.sites.empty()) {
    error = read_sites(request.sites, names);
  }
  if (!error.empty()) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return kBadInput;
  }
  report.title = std::filesystem::path(trace.empty() ? request.inputs.front() : trace).filename();
  report.site_name = [&](std::uint64_t site) {
    char hash[32];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(site));
    const auto found = names.find(site);
    return found != names.end() ? found->second : std::string(hash);
  };
  if (!trace.empty() && !request.no_glibc) {
    if (const std::string note = add_glibc_layout(trace, request.threshold, report.maps);
        !note.empty()) {
      std::fprintf(stderr, "memomalloc report: %s\n", note.c_str());
    }
  }
  return write_outputs(app, request, report);
}

}  // namespace memo::cli
