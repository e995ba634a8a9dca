// What leaves the process: statistics as JSON and as lines, and the trace.
#include "src/io/export.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/io/trace_csv.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using nlohmann::json;
using testing::Random;
using testing::read_file;
using testing::TempFolder;

// Every value another one.
struct SomeSnapshot : Snapshot {
  SomeSnapshot() {
    std::uint64_t value = 1000;
#define COUNTER(name, unit, help) counters.name.add(++value);
#include "src/base/counters.def"
#undef COUNTER
    phase = "serving";
    since_large_bytes = (1ULL << 33) + 5;
    since_planned_bytes = 1ULL << 33;
    since_at_hand_bytes = 3;
    slab_bytes = 1ULL << 40;
    lower_bound_bytes = (1ULL << 40) - 1;
    plan_seconds = 0.0125;
    threads = 3;
    loop = {.length = 5, .run = 140};
    evidence = "it repeats";
    verdict = "it's tried";
  }
};

std::string json_of(const Snapshot& snapshot) {
  char text[8192];
  const std::size_t length = format_json(snapshot, text, sizeof text);
  REQUIRE(length < sizeof text);
  REQUIRE(std::string(text).size() == length);
  return text;
}

TEST_CASE("export: the statistics are JSON with all that is promised", "[io]") {
  const SomeSnapshot snapshot;
  const json all = json::parse(json_of(snapshot));
  CHECK(all["version"] == MEMO_VERSION);
  CHECK(all["pid"] == getpid());
  CHECK(all["phase"] == "serving");
  CHECK(all["slab_bytes"] == 1ULL << 40);
  CHECK(all["lower_bound_bytes"] == (1ULL << 40) - 1);
  CHECK(all["plan_seconds"].get<double>() == Approx(0.0125));
  CHECK(all["threads"] == 3);
  CHECK(all["loop"] == json{{"calls", 5},
                            {"run", 140},
                            {"evidence", "it repeats"},
                            {"verdict", "it's tried"},
                            {"next", ""}});
#define COUNTER(name, unit, help) CHECK(all[#name] == snapshot.counters.name.get());
#include "src/base/counters.def"
#undef COUNTER
  for (const char* reason : {"size", "order", "occupied", "limit", "alignment", "busy"}) {
    CHECK(all["fallback"][reason] == all[std::string("fallback_").append(reason)]);
  }
  CHECK(all["since_serving"] == json{{"large_bytes", snapshot.since_large_bytes},
                                     {"planned_bytes", snapshot.since_planned_bytes},
                                     {"at_hand_bytes", snapshot.since_at_hand_bytes}});
}

TEST_CASE("export: an idle process has statistics too, and the greatest numbers fit", "[io]") {
  CHECK(json::parse(json_of({}))["phase"] == "idle");
  Snapshot greatest;
#define COUNTER(name, unit, help) greatest.counters.name.add(UINT64_MAX);
#include "src/base/counters.def"
#undef COUNTER
  greatest.slab_bytes = UINT64_MAX;
  CHECK(json::parse(json_of(greatest))["large_bytes"] == UINT64_MAX);
}

TEST_CASE("export: a small buffer gets the beginning, and the whole length is told", "[io]") {
  const SomeSnapshot snapshot;
  const std::string whole = json_of(snapshot);
  for (std::size_t size = 0; size < whole.size() + 3; ++size) {
    std::vector<char> buffer(size + 8, '#');
    REQUIRE(format_json(snapshot, buffer.data(), size) == whole.size());
    const std::size_t kept = size == 0 ? 0 : std::min(size - 1, whole.size());
    REQUIRE(std::string(buffer.data(), kept) == whole.substr(0, kept));
    if (size > 0) {
      REQUIRE(buffer[kept] == '\0');
    }
    REQUIRE(std::string(buffer.data() + size, 8) == "########");
  }
  CHECK(format_json(snapshot, nullptr, 0) == whole.size());
}

TEST_CASE("export: the lines name every counter once", "[io]") {
  const SomeSnapshot snapshot;
  std::map<std::string, std::string> values;
  std::istringstream lines(testing::stderr_of([&] { print_stats(snapshot); }));
  for (std::string line; std::getline(lines, line);) {
    REQUIRE(line.starts_with("memomalloc: "));
    std::istringstream words(line.substr(12));
    std::string name;
    std::string value;
    std::string more;
    REQUIRE(words >> name >> value);
    REQUIRE_FALSE(words >> more);
    CHECK(values.emplace(name, value).second);
  }
#define COUNTER(name, unit, help) \
  CHECK(values[#name] == std::to_string(snapshot.counters.name.get()));
#include "src/base/counters.def"
#undef COUNTER
  CHECK(values["phase"] == "serving");
  CHECK(values["plan_microseconds"] == "12500");
}

TEST_CASE("export: the statistics file is replaced as a whole", "[io]") {
  const RecursionGuard guard;
  const TempFolder folder;
  const std::string path = folder.file("stats.json");
  REQUIRE(write_stats_file(guard, path.c_str(), {}));
  // Whoever reads meanwhile finds one or the other state, never a part of one.
  const SomeSnapshot some;
  const Snapshot none;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> broken{0};
  std::thread reader([&] {
    while (!done) {
      broken += json::accept(read_file(path)) ? 0U : 1U;
    }
  });
  for (int i = 0; i < 200; ++i) {
    REQUIRE(write_stats_file(guard, path.c_str(), i % 2 == 0 ? some : none));
  }
  done = true;
  reader.join();
  CHECK(broken == 0);
  CHECK(folder.entries() == 1);
}

TEST_CASE("export: a symbolic link is replaced, what it points to is not touched", "[io]") {
  const RecursionGuard guard;
  const TempFolder folder;
  const std::string target = folder.file("target");
  const std::string path = folder.file("stats.json");
  std::ofstream(target) << "precious";
  std::filesystem::create_symlink(target, path);
  CHECK(write_stats_file(guard, path.c_str(), SomeSnapshot()));
  CHECK(read_file(target) == "precious");
  CHECK_FALSE(std::filesystem::is_symlink(path));
  CHECK(json::accept(read_file(path)));
}

TEST_CASE("export: a path that cannot be written is said, and leaves nothing behind", "[io]") {
  const RecursionGuard guard;
  const TempFolder folder;
  const auto fails = [&](const std::string& path, int reason) {
    errno = 0;
    CHECK_FALSE(write_stats_file(guard, path.c_str(), {}));
    CHECK(errno == reason);
    errno = 0;
    CHECK_FALSE(write_trace(guard, path.c_str(), {}));
    CHECK(errno == reason);
  };
  fails(folder.file("no/such/folder.json"), ENOENT);
  fails(std::string(5000, 'x'), ENAMETOOLONG);
  std::filesystem::create_directory(folder.file("folder"));
  fails(folder.file("folder"), EISDIR);
  CHECK(folder.entries() == 1);
}

TEST_CASE("export: a file that cannot be finished leaves the old one", "[io]") {
  const TempFolder folder;
  const std::string path = folder.file("stats.json");
  std::ofstream(path) << "old";
  CHECK(testing::status_of_child([&] {
          std::signal(SIGXFSZ, SIG_IGN);
          const rlimit limit{100, 100};
          setrlimit(RLIMIT_FSIZE, &limit);
          const RecursionGuard guard;
          return !write_stats_file(guard, path.c_str(), SomeSnapshot()) && errno == EFBIG ? 0 : 1;
        }) == 0);
  CHECK(read_file(path) == "old");
  CHECK(folder.entries() == 1);
}

constexpr std::uint64_t kSlots = 64;

// Recorders of two lanes, filled at random, and the rows that they ought to become.
struct World {
  explicit World(std::uint64_t seed) : random(seed) {
    for (Recorder& recorder : recorders) {
      REQUIRE(recorder.prepare(4096, true));
    }
  }
  void take(std::uint32_t lane, std::uint64_t slot) {
    Allocation allocation;
    allocation.size = random() >> 30;
    allocation.site = random();
    allocation.alignment_log2 = static_cast<std::uint8_t>(random() % 27);
    allocation.op = static_cast<Op>(random() % 8);
    const std::uint32_t index = recorders[lane].note(allocation, 0);
    recorders[lane].bind(index, address(slot), tables[lane], Granules{slot});
    TraceRow row;
    row.op = allocation.op;
    row.thread = lane;
    row.block = rows.size();  // a name of its own; told apart below
    row.size = allocation.size;
    row.alignment = 1ULL << allocation.alignment_log2;
    row.site = allocation.site;
    alive[lane][slot] = row.block;
    rows.push_back(row);
  }
  void free(std::uint32_t lane, std::uint64_t slot, std::uint32_t by) {
    recorders[lane].free(address(slot), tables[lane], Granules{slot}, by);
    rows.push_back({.kind = TraceRow::Kind::kFree, .thread = by, .block = alive[lane][slot]});
    alive[lane].erase(slot);
  }
  void mark(std::uint32_t lane) {
    recorders[lane].mark();
    rows.push_back({.kind = TraceRow::Kind::kMark, .block = marks[lane]++});
  }
  static std::uint64_t address(std::uint64_t slot) { return 0x700000000000ULL + slot * 4096; }

  Random random;
  Recorder recorders[2];
  std::vector<std::uint64_t> words[2] = {std::vector<std::uint64_t>(kSlots),
                                         std::vector<std::uint64_t>(kSlots)};
  LiveTable tables[2] = {LiveTable(words[0].data()), LiveTable(words[1].data())};
  std::map<std::uint64_t, std::uint64_t> alive[2];
  std::uint64_t marks[2] = {};
  std::vector<TraceRow> rows;
};

TEST_CASE("export: a trace holds what happened, in the order in which it did", "[io]") {
  for (const std::uint64_t seed : testing::seeds(3)) {
    INFO("seed " << seed);
    World world(seed);
    for (int i = 0; i < 2000; ++i) {
      const auto lane = static_cast<std::uint32_t>(world.random() % 2);
      const std::uint64_t slot = world.random() % kSlots;
      if (world.random() % 50 == 0) {
        world.mark(lane);
      } else if (world.alive[lane].contains(slot)) {
        world.free(lane, slot, static_cast<std::uint32_t>(world.random() % 2));
      } else {
        world.take(lane, slot);
      }
    }
    const TempFolder folder;
    const std::string path = folder.file("trace.csv");
    const RecursionGuard guard;
    const Recorder* recorders[] = {&world.recorders[0], &world.recorders[1]};
    REQUIRE(write_trace(guard, path.c_str(), recorders));

    std::istringstream text(read_file(path));
    std::string line;
    REQUIRE(std::getline(text, line));
    CHECK(line == kTraceHeader);
    std::map<std::uint64_t, std::uint64_t> names;  // block in the file -> block of the world
    for (const TraceRow& expected : world.rows) {
      REQUIRE(std::getline(text, line));
      INFO(line);
      std::string_view reason;
      std::optional<TraceRow> row = parse_trace_row(line, &reason);
      REQUIRE(row);
      if (row->kind == TraceRow::Kind::kAllocate) {
        REQUIRE(names.emplace(row->block, expected.block).second);
      }
      if (row->kind != TraceRow::Kind::kMark) {
        REQUIRE(names.contains(row->block));
        row->block = names[row->block];
      }
      REQUIRE(*row == expected);
    }
    CHECK_FALSE(std::getline(text, line));
  }
}

TEST_CASE("export: recorders without stamps leave an empty trace", "[io]") {
  Recorder recorder;
  REQUIRE(recorder.prepare(16, false));
  recorder.note({}, 0);
  const TempFolder folder;
  const std::string path = folder.file("trace.csv");
  const Recorder* recorders[] = {&recorder};
  const RecursionGuard guard;
  REQUIRE(write_trace(guard, path.c_str(), recorders));
  CHECK(read_file(path) == std::string(kTraceHeader).append("\n"));
}

}  // namespace
}  // namespace memo
