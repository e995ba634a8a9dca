// `memomalloc replay`: a recorded trace through the allocator that this process runs with. Cold.
#include <sys/resource.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>

#include "src/base/peak_memory.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"
#include "src/cli/compare/comparison.h"
#include "src/cli/compare/replayer.h"

namespace memo::cli {
namespace {

rusage usage_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

nlohmann::json figures(const ReplayTrace& trace, const ReplayResult& result, const rusage& before) {
  const rusage after = usage_now();
  const Spread seconds = spread(result.seconds);
  return {{"iterations", result.seconds.size()},
          {"threads", trace.threads},
          {"allocations", trace.blocks},
          {"bytes", trace.bytes},
          {"seconds", std::accumulate(result.seconds.begin(), result.seconds.end(), 0.0)},
          {"p50_seconds", seconds.median},
          {"p99_seconds", seconds.p99},
          {"minor_faults", after.ru_minflt - before.ru_minflt},
          {"major_faults", after.ru_majflt - before.ru_majflt},
          {"peak_rss_bytes", os::peak_memory()}};
}

std::string addresses_csv(const ReplayTrace& trace, const ReplayResult& result) {
  std::ostringstream file;
  file << "thread,size,address\n";
  for (const ReplayEvent& event : trace.events) {
    if (event.kind == TraceRow::Kind::kAllocate) {
      file << trace.thread_numbers[event.thread] << ',' << event.size << ','
           << result.addresses[event.block] << '\n';
    }
  }
  return file.str();
}

}  // namespace

int replay(int argc, char** argv) {
  std::string path;
  std::string addresses_path;
  int iterations = 1;
  bool no_touch = false;
  CLI::App app(
      "Repeats the allocations of a recorded trace on whatever allocator is loaded, writes to "
      "each\n"
      "page of each block, and prints time, page faults and peak memory as one line of JSON:\n"
      "memomalloc compare -- memomalloc replay trace.csv");
  app.add_option("TRACE", path, kTracePath)->required();
  app.add_option("--iterations", iterations, "times to play the whole trace")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_flag("--no-touch", no_touch, "leave the pages unwritten: the allocator's own work only");
  app.add_option("--addresses", addresses_path,
                 "write thread, size and address of each allocation of the last iteration as CSV")
      ->type_name("FILE");
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  ReplayTrace trace;
  if (const std::string error = read_replay(path, trace); !error.empty()) {
    return refuse(error, kHowToRecord);
  }
  std::string error = unwritable({path}, {addresses_path});
  if (!error.empty()) {
    return complain(app, error);
  }
  const rusage before = usage_now();
  const ReplayResult result = replay_trace(trace, iterations, !no_touch);
  if (result.missing_threads != 0) {
    std::fprintf(stderr,
                 "memomalloc replay: %u of the trace's %u threads cannot be started; is there a "
                 "limit on processes (`ulimit -u`) or memory (`ulimit -v`)?\n",
                 result.missing_threads, trace.threads);
    return kNo;
  }
  if (result.refused_bytes != 0) {
    std::fprintf(stderr,
                 "memomalloc replay: the allocator refused %llu bytes; is there a limit on memory "
                 "(`ulimit -v`)?\n",
                 static_cast<unsigned long long>(result.refused_bytes));
    return kNo;
  }
  const std::string line = figures(trace, result, before).dump();
  if (!addresses_path.empty() && !write_text(addresses_path, addresses_csv(trace, result), error)) {
    return complain(app, error);
  }
  if (addresses_path != "-") {
    std::printf("%s\n", line.c_str());
  }
  return kDone;
}

}  // namespace memo::cli
