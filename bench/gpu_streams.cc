// Recorded streams of GPU memory, replayed without a GPU: what was needed, and what is reserved for
// it by best fit with expanding memory (a model), by the pool alone and with plans. Prints a row for
// each stream: `build/bench/gpu_streams tests/gpu/streams/*.csv.gz`.
#include <cstdio>
#include <string>

#include "tests/gpu/replay.h"

namespace {

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

std::string field(const std::string& json, const std::string& name) {
  return std::to_string(replay::number_in(json, name));
}

}  // namespace

int main(int argc, char** argv) {
  std::printf(
      "stream,policy,chunk_mib,late,alive_gib,reserved_gib,ratio,moved,driver_calls,refused,"
      "planned,reused,other,misses,occupied,plans,plan_bytes,lower_bound,plan_us,waits,iterations,"
      "faults\n");
  for (int i = 1; i < argc; ++i) {
    const auto rows = replay::read(argv[i]);
    for (const std::uint64_t chunk : {2UL, 4UL, 8UL}) {
      for (const char* policy : {"expanding", "pool", "plan"}) {
        for (const bool late : {false, true}) {
          replay::Options options;
          options.late = late;
          options.settings.chunk = chunk << 20;
          options.settings.plan = std::string(policy) == "plan";
          options.settings.steal = std::string(policy) != "expanding";
          const auto outcome = replay::run(rows, options);
          const std::string& s = outcome.statistics;
          std::string name(argv[i]);
          name = name.substr(name.rfind('/') + 1);
          std::printf(
              "%s,%s,%llu,%d,%.3f,%.3f,%.4f,%llu,%s,%llu,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%zu\n",
              name.substr(0, name.find('.')).c_str(), policy,
              static_cast<unsigned long long>(chunk), late, gib(outcome.alive),
              gib(outcome.reserved),
              static_cast<double>(outcome.reserved) / static_cast<double>(outcome.alive),
              static_cast<unsigned long long>(outcome.moved), field(s, "driver_calls").c_str(),
              static_cast<unsigned long long>(outcome.refused),
              field(s, "planned_allocations").c_str(), field(s, "reused_allocations").c_str(),
              field(s, "other_allocations").c_str(), field(s, "misses").c_str(),
              field(s, "occupied").c_str(), field(s, "plans").c_str(),
              field(s, "plan_bytes").c_str(), field(s, "lower_bound_bytes").c_str(),
              field(s, "plan_microseconds").c_str(), field(s, "waits").c_str(),
              field(s, "iterations").c_str(), outcome.faults.size());
          for (const auto& fault : outcome.faults) {
            std::printf("  %s\n", fault.c_str());
          }
          std::fflush(stdout);
        }
      }
    }
  }
  return 0;
}
