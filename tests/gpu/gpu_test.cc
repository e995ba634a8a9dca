// The GPU's memory over a driver that is none: recorded streams with late work (an oracle watches),
// and what a program may do.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "src/base/guard.h"
#include "src/gpu/device.h"
#include "src/gpu/intervals.h"
#include "src/gpu/plan_exchange.h"
#include "src/io/plan_cache.h"
#include "tests/gpu/fake_driver.h"
#include "tests/gpu/replay.h"
#include "tests/support/process.h"

using memo::gpu::Address;
using memo::gpu::Device;
using memo::gpu::Driver;
using memo::gpu::Intervals;
using memo::gpu::PlanExchange;
using memo::gpu::PoolId;
using memo::gpu::Settings;
using memo::gpu::Stream;

namespace {

constexpr std::uint64_t kMiB = 1U << 20;

Stream stream(std::uint64_t number) {
  return reinterpret_cast<Stream>(number * 16);
}

std::uint64_t figure(Device& device, const std::string& name) {
  const std::string text = device.statistics();
  REQUIRE(text.find('"' + name + "\":") != std::string::npos);
  return replay::number_in(text, name);
}

// A device of `mib` MiB, and blocks that the fake driver watches.
struct Bench {
  explicit Bench(std::uint64_t mib, const Settings& settings = {}) {
    fake::world().restart(mib * kMiB, false);
    driver = replay::fake_driver();
    device = std::make_unique<Device>(driver, 0, 1, settings);
  }
  ~Bench() {
    CHECK(device->valid());
    CHECK(fake::world().faults == std::vector<std::string>());
    // The thread has its own mode again: else the program's unsafe calls would be let through.
    int mode = 0;
    driver.exchange_capture_mode(&mode);
    CHECK(mode == 0);
  }
  Address take(std::uint64_t bytes, Stream on = nullptr) {
    const auto result = device->allocate(bytes, on);
    CAPTURE(result.error);
    REQUIRE(result.error.empty());
    CHECK(!fake::world().disturbed(result.address, result.address + bytes, on));
    CHECK(fake::world().mapped(result.address, result.address + bytes));
    fake::world().alive(result.address, result.address + bytes);
    sizes[result.address] = bytes;
    return result.address;
  }
  // Frees the block; its work on the streams is not done yet.
  void free(Address address, const std::vector<Stream>& used_on) {
    std::vector<fake::Use> uses;
    for (const Stream on : used_on) {
      uses.push_back({address, address + sizes[address], on, fake::world().issue(on)});
    }
    fake::world().freed(address, uses);
    CHECK(device->free(address));
  }
  Driver driver;
  std::unique_ptr<Device> device;
  std::map<Address, std::uint64_t> sizes;
};

// A folder for plans, which goes with the test.
struct Folder {
  Folder() {
    char name[] = "/tmp/gpu_plans_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::vector<std::filesystem::path> plans() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string path;
};

// One iteration of a loop with eight blocks, three of which are alive at once; `kind`: of which of
// many loops.
void iterate(Bench& bench, Stream on = nullptr, std::uint64_t kind = 0) {
  const std::uint64_t sizes[] = {3 * kMiB, 17 * kMiB, 5 * kMiB,  64 * kMiB,
                                 2 * kMiB, 9 * kMiB,  33 * kMiB, 6 * kMiB};
  std::vector<Address> alive;
  for (const std::uint64_t size : sizes) {
    alive.push_back(bench.take(size + kind * kMiB / 4, on));
    if (alive.size() == 3) {
      bench.free(alive.front(), {on});
      alive.erase(alive.begin());
    }
  }
  for (const Address address : alive) {
    bench.free(address, {on});
  }
  fake::world().finish(on);
}

// Planned calls of the first iterations of a new process whose plans lie in the folder.
std::uint64_t planned_at_once(const Folder& folder, int iterations, Stream on = nullptr) {
  PlanExchange cache(folder.path.c_str(), memo::Trust::kOwner);
  Settings settings;
  settings.cache = &cache;
  Bench bench(4096, settings);
  for (int i = 0; i < iterations; ++i) {
    iterate(bench, on);
  }
  cache.write();
  return figure(*bench.device, "planned_allocations");
}

// Saves the folder's only plan again, as of that machine; not `right`: all its blocks lie in one
// place.
void save_as(const Folder& folder, const char* machine, bool right) {
  const memo::RecursionGuard guard;
  const memo::CacheTurn turn(folder.path.c_str());
  memo::PlanName name;
  memo::Cached cached;
  std::string_view problem;
  REQUIRE(folder.plans().size() == 1);
  REQUIRE(memo::parse_name(folder.plans().front().filename().string(), name));
  REQUIRE(memo::load_cached(guard, folder.path.c_str(), name, UINT64_MAX, memo::Trust::kOwner,
                            cached, &problem));
  memo::Schedule schedule = *cached.plan.plan;
  std::vector<memo::Step> steps(schedule.steps, schedule.steps + schedule.count);
  for (memo::Step& step : steps) {
    step.offset = right ? step.offset : 0;
  }
  schedule.steps = steps.data();
  memo::CacheRecord record = cached.record;
  std::snprintf(record.machine, sizeof record.machine, "%s", machine);
  memo::remove_cached(folder.path.c_str(), name);
  REQUIRE(memo::save_cached(guard, turn, folder.path.c_str(), {&schedule, cached.plan.iteration},
                            name, record, memo::Trust::kOwner));
}

const char* const kStreams[] = {"transformer", "transformer-mixed", "experts", "resnet50",
                                "generate"};

std::vector<replay::Row> rows_of(const std::string& name) {
  auto rows = replay::read("tests/gpu/streams/" + name + ".csv.gz");
  REQUIRE(rows.size() > 1000);
  return rows;
}

}  // namespace

TEST_CASE("gpu: intervals are what a set of units is", "[gpu]") {
  const auto seed = static_cast<std::uint32_t>(std::random_device()());
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr std::uint64_t kUnits = 60;
  Intervals intervals;
  std::array<bool, kUnits> model{};
  for (int turn = 0; turn < 3000; ++turn) {
    const std::uint64_t lower = random() % kUnits;
    const std::uint64_t upper = lower + 1 + random() % (kUnits - lower);
    const auto from = model.begin() + static_cast<std::ptrdiff_t>(lower);
    const auto to = model.begin() + static_cast<std::ptrdiff_t>(upper);
    const bool all = std::all_of(from, to, [](bool in) { return in; });
    REQUIRE(intervals.contains(lower, upper) == all);
    if (random() % 3 == 0) {
      intervals.remove_any(lower, upper);
      std::fill(from, to, false);
    } else if (std::none_of(from, to, [](bool in) { return in; })) {
      intervals.add(lower, upper);
      std::fill(from, to, true);
    } else if (all) {
      intervals.remove(lower, upper);
      std::fill(from, to, false);
    }
    for (std::uint64_t i = 0; i < kUnits; ++i) {
      REQUIRE(intervals.contains(i, i + 1) == model[i]);
    }
    std::uint64_t best = UINT64_MAX;
    const std::uint64_t wanted = 1 + random() % 10;
    for (std::uint64_t i = 0; i < kUnits; ++i) {
      std::uint64_t run = 0;
      while (i + run < kUnits && model[i + run]) {
        ++run;
      }
      if (run >= wanted) {
        best = std::min(best, run);
      }
      i += run;
    }
    const auto found = intervals.best_fit(wanted);
    REQUIRE(found.has_value() == (best != UINT64_MAX));
    if (found) {
      REQUIRE(found->bytes() == best);
    }
  }
}

TEST_CASE("gpu: recorded streams with late work never share memory", "[gpu][replay]") {
  const auto first = static_cast<std::uint64_t>(std::random_device()());
  for (const std::string name : kStreams) {
    const auto rows = rows_of(name);
    for (const std::uint64_t seed : {std::uint64_t{1}, first, first + 1}) {
      for (const std::uint64_t chunk : {2U, 4U, 16U}) {
        replay::Options options;
        options.seed = seed;
        options.settings.chunk = chunk * kMiB;
        const auto outcome = replay::run(rows, options);
        CAPTURE(name, seed, chunk);
        CHECK(outcome.faults == std::vector<std::string>());
        CHECK(outcome.refused == 0);
      }
    }
  }
}

TEST_CASE("gpu: recorded streams in too little memory are refused, and nothing is lost",
          "[gpu][replay]") {
  for (const std::string name : {"transformer", "experts"}) {
    const auto rows = rows_of(name);
    for (const double share : {0.5, 0.9, 1.005}) {
      replay::Options options;
      const auto whole = replay::run(rows, options);
      options.memory = static_cast<std::uint64_t>(share * static_cast<double>(whole.alive)) /
                       (2 * kMiB) * (2 * kMiB);
      const auto outcome = replay::run(rows, options);
      CAPTURE(name, share);
      CHECK(outcome.faults == std::vector<std::string>());
      if (share < 1) {
        CHECK(outcome.refused > 0);
      }
    }
  }
}

TEST_CASE("gpu: what is reserved stays near what is alive", "[gpu][replay]") {
  // The bounds of docs/gpu.md. Best fit with expanding memory has 1.06 of the first two and 1.08 of
  // the last; torch's own allocator 1.14, 1.35, 1.08, 1.22 and 1.10, as recorded.
  const std::map<std::string, double> most = {{"transformer", 1.02},
                                              {"transformer-mixed", 1.03},
                                              {"experts", 1.03},
                                              {"resnet50", 1.02},
                                              {"generate", 1.05}};
  for (const auto& [name, bound] : most) {
    const auto outcome = replay::run(rows_of(name), {});
    CAPTURE(name, outcome.alive, outcome.reserved);
    CHECK(static_cast<double>(outcome.reserved) <= bound * static_cast<double>(outcome.alive));
  }
}

TEST_CASE("gpu: a loop is planned, and then makes no call of the driver that maps", "[gpu]") {
  Bench bench(4096);
  std::uint64_t calls = 0;
  std::uint64_t misses = 0;
  for (int iteration = 0; iteration < 40; ++iteration) {
    if (iteration == 30) {
      calls = figure(*bench.device, "driver_calls");
      misses = figure(*bench.device, "misses");
      CHECK(bench.device->statistics().find("\"phase\":\"serving\"") != std::string::npos);
    }
    iterate(bench);
  }
  CHECK(figure(*bench.device, "driver_calls") == calls);
  CHECK(figure(*bench.device, "misses") == misses);
  CHECK(figure(*bench.device, "plan_bytes") == figure(*bench.device, "lower_bound_bytes"));
  CHECK(figure(*bench.device, "planned_allocations") >= 25 * 8);
  CHECK(figure(*bench.device, "reserved_bytes.all.peak") <=
        figure(*bench.device, "requested_bytes.all.peak") + (64 + 4) * kMiB);
}

TEST_CASE("gpu: a loop that goes on for long needs no more events", "[gpu]") {
  for (const bool plan : {true, false}) {
    Settings settings;
    settings.plan = plan;
    Bench bench(4096, settings);
    for (int i = 0; i < 2000; ++i) {
      iterate(bench);
    }
    CAPTURE(plan);
    CHECK(fake::world().events.size() < 64);
  }
}

TEST_CASE("gpu: a program of many loops has the latest planned, and knows these again", "[gpu]") {
  Bench bench(4096);
  constexpr std::uint64_t kLoops = 40;
  std::uint64_t before = 0;
  for (std::uint64_t kind = 0; kind < kLoops; ++kind) {
    before = figure(*bench.device, "planned_allocations");
    for (int i = 0; i < 160; ++i) {
      iterate(bench, nullptr, kind);
    }
  }
  CHECK(figure(*bench.device, "planned_allocations") >= before + 140 * 8);
  CHECK(figure(*bench.device, "plans_made") == kLoops);
  CHECK(figure(*bench.device, "plans") < kLoops);
  for (std::uint64_t kind = kLoops - 8; kind < kLoops; ++kind) {
    for (int i = 0; i < 10; ++i) {
      iterate(bench, nullptr, kind);
    }
  }
  CHECK(figure(*bench.device, "plans_made") == kLoops);
}

TEST_CASE("gpu: a block that another stream uses is not handed out before that is done", "[gpu]") {
  Bench bench(256);
  const Address first = bench.take(8 * kMiB, stream(1));
  bench.device->record_stream(first, stream(2));
  bench.free(first, {stream(1), stream(2)});
  fake::world().finish(stream(1));
  CHECK(bench.take(8 * kMiB, stream(1)) != first);
  fake::world().finish(stream(2));
  CHECK(bench.take(8 * kMiB, stream(1)) == first);
}

TEST_CASE("gpu: memory is taken from another stream only when its work is done", "[gpu]") {
  Bench bench(64);
  const Address first = bench.take(60 * kMiB, stream(1));
  bench.free(first, {stream(1)});
  // There is no other memory: the call waits for the stream, and gets it.
  CHECK(bench.take(60 * kMiB, stream(2)) != first);
  CHECK(fake::world().done(stream(1), 1));
}

TEST_CASE("gpu: a slow stream holds back its own blocks alone", "[gpu]") {
  Bench bench(256);
  const Address slow = bench.take(8 * kMiB, stream(1));
  const Address quick = bench.take(8 * kMiB, stream(1));
  bench.device->record_stream(slow, stream(2));
  bench.device->record_stream(quick, stream(3));
  bench.free(slow, {stream(1), stream(2)});
  bench.free(quick, {stream(1), stream(3)});
  fake::world().finish(stream(3));
  CHECK(bench.take(8 * kMiB, stream(1)) == quick);
}

TEST_CASE("gpu: where there is no memory, blocks are waited for that other streams use", "[gpu]") {
  Bench bench(64);
  Device second(bench.driver, 1, fake::kDevices, {});
  const Device::Queue queues[] = {{bench.device->context(), stream(2)},
                                  {second.context(), nullptr}};
  for (const auto& queue : queues) {
    const Stream used_on = queue.stream != nullptr ? queue.stream : fake::kSecondDefault;
    const Address first = bench.take(40 * kMiB, stream(1));
    bench.device->record_stream(first, queue);
    bench.free(first, {stream(1), used_on});
    bench.free(bench.take(60 * kMiB, stream(1)), {});
    CHECK(fake::world().done(used_on, 1));
  }
  // Not for one that is captured.
  const Address first = bench.take(40 * kMiB, stream(1));
  bench.device->record_stream(first, stream(2));
  fake::world().queues[stream(2)].capturing = true;
  bench.free(first, {stream(1), stream(2)});
  CHECK(bench.device->allocate(60 * kMiB, stream(1)).memory);
  CHECK_FALSE(bench.device->sleep(true));
  fake::world().queues[stream(2)].capturing = false;
  bench.take(60 * kMiB, stream(1));
}

TEST_CASE("gpu: release returns what another stream has used, at once", "[gpu]") {
  Bench bench(64);
  const Address first = bench.take(8 * kMiB, stream(1));
  bench.device->record_stream(first, stream(2));
  bench.free(first, {stream(1), stream(2)});
  bench.device->give_back();
  CHECK(fake::world().used == 0);
}

TEST_CASE("gpu: memory moves to another stream after few frees, too", "[gpu]") {
  Bench bench(1024);
  for (const Stream on : {stream(1), stream(2)}) {
    std::vector<Address> alive;
    for (int i = 0; i < 4; ++i) {
      alive.push_back(bench.take(60 * kMiB, on));
    }
    for (const Address address : alive) {
      bench.free(address, {on});
    }
    fake::world().finish(on);
  }
  CHECK(figure(*bench.device, "reserved_bytes.all.peak") <= (4 * 60 + 64 + 8) * kMiB);
}

TEST_CASE("gpu: time that new memory takes is none for moving", "[gpu]") {
  Bench bench(64);
  fake::world().slow = 20;
  bench.take(4 * kMiB);
  CHECK(figure(*bench.device, "moving_microseconds") < 20000);
}

TEST_CASE("gpu: no memory is an error that says what there is, and the next call goes on",
          "[gpu]") {
  Bench bench(64);
  const Address kept = bench.take(40 * kMiB);
  const auto refused = bench.device->allocate(40 * kMiB, nullptr);
  CHECK(refused.memory);
  CHECK(refused.error.find("Tried to allocate 40.00 MiB") != std::string::npos);
  CHECK(refused.error.find("40.00 MiB is alive in tensors") != std::string::npos);
  CHECK(bench.device->allocate(UINT64_MAX - 5, nullptr).memory);
  CHECK(figure(*bench.device, "num_ooms") == 2);
  bench.free(kept, {nullptr});
  bench.take(60 * kMiB);
}

TEST_CASE("gpu: an error of the driver that is not a lack of memory is reported by its name",
          "[gpu]") {
  Bench bench(64);
  const Address first = bench.take(8 * kMiB);
  fake::world().no_handle = 1;
  const auto refused = bench.device->allocate(16 * kMiB, nullptr);
  CHECK_FALSE(refused.memory);
  CHECK(refused.error == "CUDA error: CUDA_ERROR_INVALID_VALUE, where 16.00 MiB was asked for");
  CHECK(figure(*bench.device, "num_ooms") == 0);
  // Each call reports its own error, not that of an earlier call.
  CHECK(bench.device->allocate(65 * kMiB, nullptr).memory);
  fake::world().no_handle = 0;
  bench.free(first, {nullptr});
  bench.take(60 * kMiB);
}

TEST_CASE("gpu: a device that cannot move memory says so", "[gpu]") {
  fake::world().restart(64 * kMiB, false);
  const Driver driver = replay::fake_driver();
  fake::world().has_virtual_memory = false;
  const auto without = Device(driver, 1, fake::kDevices, {}).allocate(kMiB, nullptr);
  CHECK(without.error == "GPU 1 has no virtual memory management");
  CHECK_FALSE(without.memory);
  fake::world().has_virtual_memory = true;
  fake::world().granularity = 16 * kMiB;
  const auto coarse = Device(driver, 0, 1, {}).allocate(kMiB, nullptr);
  CHECK(coarse.error == "GPU 0 maps memory in pieces of 16.00 MiB, which do not make up 2.00 MiB");
  CHECK_FALSE(coarse.memory);
}

TEST_CASE("gpu: a device whose context was refused is asked for again", "[gpu]") {
  fake::world().restart(64 * kMiB, false);
  const Driver driver = replay::fake_driver();
  fake::world().refuse_at = 1;
  fake::world().refuse_ever = true;
  Device device(driver, 0, 1, {});
  CHECK(device.allocate(kMiB, nullptr).error == "GPU 0 cannot be used: CUDA_ERROR_OUT_OF_MEMORY");
  fake::world().refuse_ever = false;
  CHECK(device.allocate(kMiB, nullptr).error.empty());
}

TEST_CASE("gpu: a fraction of the memory is a limit", "[gpu]") {
  Bench bench(128);
  bench.device->limit(0.5);
  bench.take(48 * kMiB);
  CHECK(!bench.device->allocate(32 * kMiB, nullptr).error.empty());
  bench.device->limit(1.0);
  bench.take(32 * kMiB);
}

TEST_CASE("gpu: a graph's memory stays its own until the pool is released", "[gpu]") {
  Bench bench(256);
  const PoolId id{7, 0};
  bench.device->begin_pool(id, [](Stream on) { return on == stream(3); });
  fake::world().queues[stream(3)].capturing = true;
  const Address first = bench.take(16 * kMiB, stream(3));
  bench.free(first, {});
  const Address again = bench.take(16 * kMiB, stream(3));
  CHECK(again == first);  // within the graph it is used again
  bench.free(again, {});
  fake::world().queues[stream(3)].capturing = false;
  bench.device->end_pool(id);
  // The graph may be replayed: nobody else gets its memory, not even where there is no other.
  bench.device->give_back();
  std::vector<Address> others;
  for (;;) {
    const auto other = bench.device->allocate(16 * kMiB, stream(3));
    if (!other.error.empty()) {
      break;
    }
    CHECK((other.address + 16 * kMiB <= first || other.address >= first + 16 * kMiB));
    others.push_back(other.address);
  }
  CHECK(others.size() == 15);
  CHECK(fake::world().mapped(first, first + 16 * kMiB));
  bench.device->release_pool(id);
  CHECK(bench.device->allocate(16 * kMiB, stream(3)).error.empty());
}

TEST_CASE("gpu: a released graph's memory is another's once its last replay is over", "[gpu]") {
  Bench bench(64);
  for (std::uint64_t turn = 1; turn <= 3; ++turn) {
    const PoolId id{turn, 0};
    bench.device->begin_pool(id, [](Stream on) { return on == stream(3); });
    const Address first = bench.take(40 * kMiB, stream(3));
    bench.free(first, {});
    bench.device->end_pool(id);
    // It is replayed on a stream that the library has never seen, and destroyed meanwhile.
    fake::world().uses.push_back(
        {first, first + 40 * kMiB, stream(8), fake::world().issue(stream(8))});
    bench.device->release_pool(id);
    bench.free(bench.take(60 * kMiB, stream(1)), {});
    CHECK(fake::world().done(stream(8), turn));
  }
  // Of one graph and one stream: those of a graph that is over are used again.
  CHECK(fake::world().addresses < 3 * (std::uint64_t{64} << 30));
}

TEST_CASE("gpu: a tensor that outlives its graph is free when no stream uses it", "[gpu]") {
  Bench bench(64);
  for (std::uint64_t turn = 1; turn <= 2; ++turn) {
    const PoolId id{turn, 0};
    const auto takes = [](Stream on) { return on == stream(3); };
    bench.device->begin_pool(id, takes);
    const Address kept = bench.take(20 * kMiB, stream(3));
    bench.device->end_pool(id);
    bench.device->release_pool(id);
    bench.device->give_back();
    CHECK(fake::world().mapped(kept, kept + 20 * kMiB));
    // Used on a stream that the library has never seen.
    bench.free(kept, {stream(8)});
    if (turn == 1) {
      bench.free(bench.take(60 * kMiB, stream(1)), {});
      CHECK(fake::world().done(stream(8), turn));
    } else {
      // Another graph, which may be replayed on whatever stream, gets other memory.
      bench.device->begin_pool({9, 0}, takes);
      const Address other = bench.take(20 * kMiB, stream(3));
      CHECK_FALSE(fake::world().unfinished(other, other + 20 * kMiB));
    }
  }
}

TEST_CASE("gpu: while a graph is captured the device is not waited for", "[gpu]") {
  Bench bench(64);
  const auto takes = [](Stream on) { return on == stream(3); };
  bench.device->begin_pool({1, 0}, takes);
  bench.free(bench.take(20 * kMiB, stream(3)), {});
  bench.device->end_pool({1, 0});
  bench.device->release_pool({1, 0});
  // The library is not asked for memory on the captured stream.
  bench.device->begin_pool({2, 0}, [](Stream on) { return on == stream(4); });
  fake::world().queues[stream(4)].capturing = true;
  bench.device->give_back();
  CHECK_FALSE(bench.device->sleep(true));
  fake::world().queues[stream(4)].capturing = false;
  bench.device->end_pool({2, 0});
  CHECK(bench.device->sleep(true));
}

TEST_CASE("gpu: a capture that begins while an event is recorded does no harm", "[gpu]") {
  Bench bench(1024);
  std::vector<Address> alive;
  for (int i = 0; i < 72; ++i) {
    alive.push_back(bench.take(4 * kMiB, stream(1)));
  }
  for (std::size_t i = 0; i < alive.size(); ++i) {
    fake::world().capture_next = i == 31;
    bench.free(alive[i], {stream(1)});
    fake::world().queues[stream(1)].capturing = false;
  }
  fake::world().finish(stream(1));
  for (int i = 0; i < 72; ++i) {
    bench.take(4 * kMiB, stream(2));
  }
  CHECK(figure(*bench.device, "reserved_bytes.all.peak") <= (72 * 4 + 64 + 32) * kMiB);
  const Address used = bench.take(8 * kMiB, stream(1));
  bench.device->record_stream(used, stream(5));
  fake::world().capture_next = true;
  bench.free(used, {stream(1), stream(5)});
  CHECK(fake::world().queues[stream(5)].capturing);
  fake::world().queues[stream(5)].capturing = false;
  fake::world().finish(stream(1));
  CHECK(bench.take(8 * kMiB, stream(1)) != used);
  fake::world().finish(stream(5));
  CHECK(bench.take(8 * kMiB, stream(1)) == used);
}

TEST_CASE("gpu: while a stream is captured no event becomes a part of the graph", "[gpu]") {
  Bench bench(512);
  const Address before = bench.take(8 * kMiB, stream(1));
  bench.device->record_stream(before, stream(2));
  fake::world().queues[stream(2)].capturing = true;
  bench.free(before, {stream(1), stream(2)});
  for (int i = 0; i < 100; ++i) {
    bench.free(bench.take(2 * kMiB, stream(2)), {stream(2)});
  }
  fake::world().queues[stream(2)].capturing = false;
  fake::world().finish(stream(1));
  fake::world().finish(stream(2));
  CHECK(bench.take(8 * kMiB, stream(1)) == before);
}

TEST_CASE("gpu: release returns what no tensor needs, and the plan is served again", "[gpu]") {
  Bench bench(1024);
  const auto iteration = [&] {
    std::vector<Address> alive;
    for (std::uint64_t size = 10; size < 18; ++size) {
      alive.push_back(bench.take(size * kMiB));
      if (size == 13) {
        bench.free(alive.front(), {nullptr});
        alive.erase(alive.begin());
      }
    }
    for (const Address address : alive) {
      bench.free(address, {nullptr});
    }
    fake::world().finish(nullptr);
  };
  for (int i = 0; i < 60; ++i) {
    iteration();
  }
  CHECK(bench.device->statistics().find("\"phase\":\"serving\"") != std::string::npos);
  const Address kept = bench.take(50 * kMiB);
  bench.device->give_back();
  CHECK(figure(*bench.device, "reserved_bytes.all.current") <= 56 * kMiB);
  for (int i = 0; i < 60; ++i) {
    iteration();
  }
  CHECK(bench.device->statistics().find("\"phase\":\"serving\"") != std::string::npos);
  CHECK(figure(*bench.device, "plans_made") == 1);
  bench.free(kept, {nullptr});
}

TEST_CASE("gpu: a plan is served on where memory is released in each round", "[gpu]") {
  for (const bool asleep : {false, true}) {
    Bench bench(4096);
    for (int i = 0; i < 60; ++i) {
      iterate(bench);
      if (asleep) {
        CHECK(bench.device->sleep(true));
      } else {
        bench.device->give_back();
      }
      CHECK(fake::world().used == 0);
    }
    CAPTURE(asleep);
    CHECK(figure(*bench.device, "planned_allocations") >= 45 * 8);
  }
}

TEST_CASE("gpu: asleep nothing is held, and addresses stay", "[gpu]") {
  Bench bench(256);
  const Address large = bench.take(20 * kMiB);
  const Address small = bench.take(4096);
  fake::world().asleep = true;
  REQUIRE(bench.device->sleep(true));
  CHECK(fake::world().used == 0);
  REQUIRE(bench.device->wake());
  CHECK(fake::world().mapped(large, large + 20 * kMiB));
  CHECK(fake::world().mapped(small, small + 4096));
  CHECK_FALSE(fake::world().unfinished(large, large + 20 * kMiB));
  REQUIRE(bench.device->sleep(false));
  bench.take(8 * kMiB);  // a call wakes it
  CHECK(fake::world().mapped(large, large + 20 * kMiB));
  fake::world().queues[nullptr].capturing = true;
  CHECK_FALSE(bench.device->sleep(true));
  fake::world().queues[nullptr].capturing = false;
}

TEST_CASE("gpu: while what was kept cannot be copied back, the device sleeps", "[gpu]") {
  fake::world().restart(64 * kMiB, true);
  const Driver driver = replay::fake_driver();
  Device device(driver, 0, 1, {});
  const auto block = device.allocate(4 * kMiB, nullptr);
  auto* bytes = reinterpret_cast<unsigned char*>(block.address);
  std::memset(bytes, 77, 4 * kMiB);
  REQUIRE(device.sleep(true));
  fake::world().refuse_at = fake::world().occasions + 4;  // made, mapped, opened: the copy
  CHECK_FALSE(device.wake());
  CHECK(device.statistics().find("\"asleep\":true") != std::string::npos);
  fake::world().refuse_at = fake::world().occasions + 1;  // a call wakes it, too
  CHECK_FALSE(device.allocate(kMiB, nullptr).memory);
  REQUIRE(device.wake());
  CHECK(std::all_of(bytes, bytes + 4 * kMiB, [](unsigned char byte) { return byte == 77; }));
}

TEST_CASE("gpu: a graph's memory is there again after sleep, also what the graph has freed",
          "[gpu]") {
  Bench bench(256);
  const PoolId id{7, 0};
  bench.device->begin_pool(id, [](Stream on) { return on == stream(3); });
  const Address large = bench.take(20 * kMiB, stream(3));
  const Address small = bench.take(4096, stream(3));
  bench.free(large, {});
  bench.free(small, {});
  bench.device->end_pool(id);
  REQUIRE(bench.device->sleep(true));
  CHECK(fake::world().used == 0);
  REQUIRE(bench.device->wake());
  CHECK(fake::world().mapped(large, large + 20 * kMiB));
  CHECK(fake::world().mapped(small, small + 4096));
}

TEST_CASE("gpu: whichever call of the driver is refused, books and blocks stay right", "[gpu]") {
  // What a first run without refusals asks for; then each occasion is refused once, and from it on.
  for (const bool ever : {false, true}) {
    std::uint64_t occasions = UINT64_MAX;
    for (std::uint64_t at = 0; at <= occasions; at += at < 40 ? 1 : 7) {
      fake::world().restart(96 * kMiB, false);
      const Driver driver = replay::fake_driver();
      fake::world().refuse_at = at;
      fake::world().refuse_ever = ever;
      Device device(driver, 0, 1, {});
      std::mt19937 random(5);
      std::vector<std::pair<Address, std::uint64_t>> alive;
      for (int call = 0; call < 120; ++call) {
        const std::uint64_t bytes = call % 3 == 0 ? 4096 : (1 + random() % 12) * kMiB;
        const Stream on = stream(random() % 2);
        const auto result = device.allocate(bytes, on);
        if (result.error.empty()) {
          CHECK_FALSE(fake::world().disturbed(result.address, result.address + bytes, on));
          CHECK(fake::world().mapped(result.address, result.address + bytes));
          fake::world().alive(result.address, result.address + bytes);
          alive.emplace_back(result.address, bytes);
        }
        while (alive.size() > 4) {
          fake::world().freed(alive.front().first, {});
          CHECK(device.free(alive.front().first));
          alive.erase(alive.begin());
        }
        if (call == 60) {
          fake::world().asleep = true;
          device.sleep(true);
          device.wake();
          fake::world().asleep = false;
        }
      }
      CAPTURE(at, ever);
      if (at == 0) {
        occasions = fake::world().occasions;
        CHECK(alive.size() == 4);
      }
      // What was taken for calls that were refused is not lost.
      fake::world().refuse_at = 0;
      for (const auto& [address, bytes] : alive) {
        fake::world().freed(address, {});
        CHECK(device.free(address));
      }
      device.give_back();
      CHECK(fake::world().used == 0);
      CHECK(device.valid());
      CHECK(fake::world().faults == std::vector<std::string>());
    }
  }
}

TEST_CASE("gpu: where the host has no memory for a stream's books, the next call goes on",
          "[gpu]") {
  Bench bench(64);
  const auto reserve = bench.driver.reserve;
  const auto fail = [](Address*, std::size_t, std::size_t, Address, std::uint64_t) -> int {
    throw std::bad_alloc();
  };
  const auto takes = [](Stream on) { return on == stream(3); };
  bench.device->begin_pool({1, 0}, takes);
  for (const Stream on : {stream(2), stream(3)}) {
    bench.driver.reserve = fail;
    CHECK_THROWS_AS(bench.device->allocate(kMiB, on), std::bad_alloc);
    bench.driver.reserve = reserve;
    bench.device->give_back();
    bench.take(kMiB, on);
  }
}

TEST_CASE("gpu: a context that the driver does not take leaves the thread's own", "[gpu]") {
  Bench bench(64);
  Driver driver = bench.driver;
  driver.push_context = [](memo::gpu::Context) { return 1; };
  bench.driver.push_context(bench.device->context());
  {
    const memo::gpu::Scope scope(driver, bench.device->context());
  }
  memo::gpu::Context context = nullptr;
  bench.driver.pop_context(&context);
  CHECK(context == bench.device->context());
}

TEST_CASE("gpu: a second free and an unknown address are told", "[gpu]") {
  Bench bench(64);
  const Address one = bench.take(kMiB);
  bench.free(one, {nullptr});
  CHECK_FALSE(bench.device->free(one));
  CHECK_FALSE(bench.device->free(one + 512));
  CHECK(bench.device->allocate(0, nullptr).address == 0);
}

TEST_CASE("gpu: a plan of the cache serves the next process from its second iteration on",
          "[gpu]") {
  const Folder folder;
  CHECK(planned_at_once(folder, 3) == 0);
  CHECK(planned_at_once(folder, 40) > 200);
  REQUIRE(folder.plans().size() == 1);
  CHECK(planned_at_once(folder, 3) >= 8);
  CHECK(planned_at_once(folder, 3, stream(9)) >= 8);
  CHECK(folder.plans().size() == 1);
}

TEST_CASE("gpu: devices of one process find each other's plans in the cache", "[gpu]") {
  const Folder folder;
  PlanExchange cache(folder.path.c_str(), memo::Trust::kOwner);
  Settings settings;
  settings.cache = &cache;
  Bench bench(4096, settings);
  for (int i = 0; i < 40; ++i) {
    iterate(bench);
  }
  cache.write();
  const std::unique_ptr<Device> first = std::move(bench.device);
  bench.device = std::make_unique<Device>(bench.driver, 1, fake::kDevices, settings);
  for (int i = 0; i < 3; ++i) {
    iterate(bench, fake::kSecondDefault);
  }
  CHECK(figure(*bench.device, "plans_fetched") == 1);
  CHECK(figure(*bench.device, "planned_allocations") >= 8);
}

TEST_CASE("gpu: recorded streams are planned at once by the plans of an earlier run",
          "[gpu][replay]") {
  const auto seed = static_cast<std::uint64_t>(std::random_device()());
  for (const std::string name : {"transformer", "resnet50"}) {
    const Folder folder;
    const auto rows = rows_of(name);
    std::uint64_t planned[2] = {};
    for (std::uint64_t& share : planned) {
      PlanExchange cache(folder.path.c_str(), memo::Trust::kOwner);
      replay::Options options;
      options.seed = seed;
      options.settings.cache = &cache;
      const auto outcome = replay::run(rows, options);
      cache.write();
      CAPTURE(name, seed);
      CHECK(outcome.faults == std::vector<std::string>());
      CHECK(outcome.refused == 0);
      share = replay::number_in(outcome.statistics, "planned_allocations");
    }
    CAPTURE(name, seed);
    CHECK(planned[0] > 0);
    CHECK(planned[1] >= planned[0] + planned[0] / 2);
  }
}

TEST_CASE("gpu: plans that are cut, altered, renamed or a processor's are refused", "[gpu]") {
  const Folder folder;
  planned_at_once(folder, 40);
  REQUIRE(folder.plans().size() == 1);
  const std::filesystem::path path = folder.plans().front();
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const auto write = [](const std::filesystem::path& to, const std::string& bytes) {
    std::ofstream(to, std::ios::binary) << bytes;
  };
  const auto said = [&] {
    return memo::testing::stderr_of([&] { CHECK(planned_at_once(folder, 3) == 0); });
  };
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 97) {
    write(path, whole.substr(0, bytes));
    CAPTURE(bytes);
    CHECK(said().find("is not used: it ") != std::string::npos);
  }
  std::string altered = whole;
  altered[whole.size() / 2] ^= 1;
  write(path, altered);
  CHECK(said().find("is not used: it is damaged") != std::string::npos);
  write(path, whole);
  save_as(folder, "x86_64", true);
  CHECK(planned_at_once(folder, 3) == 0);
  save_as(folder, "cuda", true);
  CHECK(planned_at_once(folder, 3) >= 8);
  // Another stream's name: the plan is found by calls that are not its own.
  std::string name = path.filename();
  name[0] = name[0] == 'a' ? 'b' : 'a';
  std::filesystem::rename(path, path.parent_path() / name);
  CHECK(said().find("is not used: its name is another plan's") != std::string::npos);
}

TEST_CASE("gpu: a plan whose places are wrong gives no two blocks one place, and is replaced",
          "[gpu]") {
  const Folder folder;
  planned_at_once(folder, 40);
  save_as(folder, "cuda", false);
  // The bench watches all blocks.
  CHECK(planned_at_once(folder, 3) < 3 * 8);
  CHECK(planned_at_once(folder, 200) > 200);
  CHECK(planned_at_once(folder, 10) >= 7 * 8);
  CHECK(folder.plans().size() == 1);
}

TEST_CASE("gpu: a device has its own memory, and its own default stream", "[gpu]") {
  Bench bench(64);
  Device second(bench.driver, 1, fake::kDevices, {});
  const Address first = bench.take(60 * kMiB);
  CHECK(!bench.device->allocate(30 * kMiB, nullptr).error.empty());
  const auto there = second.allocate(60 * kMiB, nullptr);
  REQUIRE(there.error.empty());
  CHECK(fake::world().used_by[1] == 60 * kMiB);
  CHECK(replay::number_in(second.statistics(), "reserved_bytes.all.peak") == 60 * kMiB);
  CHECK(second.allocate(30 * kMiB, nullptr).error.find("GPU 1 ") != std::string::npos);
  CHECK_FALSE(second.free(first));
  // Freed while the other device's context is current: its memory is used again once its own
  // stream's work is done.
  fake::world().freed(there.address,
                      {{there.address, there.address + 60 * kMiB, fake::kSecondDefault,
                        fake::world().issue(fake::kSecondDefault)}});
  bench.driver.push_context(bench.device->context());
  CHECK(second.free(there.address));
  const auto again = second.allocate(30 * kMiB, stream(4));
  CHECK(again.error.empty());
  CHECK(fake::world().done(fake::kSecondDefault, 1));
  memo::gpu::Context context = nullptr;
  bench.driver.pop_context(&context);
  CHECK(context == bench.device->context());
  CHECK(second.valid());
}

TEST_CASE("gpu: a block that another device's stream uses is not handed out before that is done",
          "[gpu]") {
  Bench bench(256);
  Device second(bench.driver, 1, fake::kDevices, {});
  fake::world().device_of[stream(5)] = 1;
  for (const Stream on : {stream(5), Stream{nullptr}}) {
    const Stream queue = on == nullptr ? fake::kSecondDefault : on;
    const Address first = bench.take(8 * kMiB);
    bench.device->record_stream(first, {second.context(), on});
    bench.free(first, {nullptr, queue});
    fake::world().finish(nullptr);
    const Address other = bench.take(8 * kMiB);
    CHECK(other != first);
    fake::world().finish(queue);
    CHECK(bench.take(8 * kMiB) == first);
    bench.free(other, {});
    bench.free(first, {});
  }
}

TEST_CASE("gpu: what a device maps, those that can reach it may read and write", "[gpu]") {
  for (const bool peers : {false, true}) {
    Bench bench(64);
    fake::world().peers = peers;
    Device second(bench.driver, 1, fake::kDevices, {});
    const auto result = second.allocate(8 * kMiB, nullptr);
    REQUIRE(result.error.empty());
    REQUIRE(!fake::world().mappings.empty());
    for (const auto& [address, mapping] : fake::world().mappings) {
      CHECK(mapping.devices == (peers ? std::set<int>{0, 1} : std::set<int>{1}));
    }
  }
}

TEST_CASE("gpu: where the driver refuses a peer, the device has its memory for itself", "[gpu]") {
  Bench bench(64);
  fake::world().peers = fake::world().refuse_peers = true;
  Device second(bench.driver, 1, fake::kDevices, {});
  const std::string said = memo::testing::stderr_of([&] {
    CHECK(second.allocate(8 * kMiB, nullptr).error.empty());
    CHECK(second.allocate(8 * kMiB, nullptr).error.empty());
  });
  CHECK(said.find("no other GPU reaches the memory of GPU 1 (CUDA_ERROR_INVALID_VALUE)") !=
        std::string::npos);
  for (const auto& [address, mapping] : fake::world().mappings) {
    CHECK(mapping.devices == std::set<int>{1});
  }
}

TEST_CASE("gpu: two large devices with many streams share the process' addresses", "[gpu]") {
  Bench bench(std::uint64_t{141} << 10);
  Device second(bench.driver, 1, fake::kDevices, {});
  for (std::uint64_t i = 1; i <= 48; ++i) {
    bench.take(2 * kMiB, stream(i));
    fake::world().device_of[stream(1000 + i)] = 1;
    CHECK(second.allocate(2 * kMiB, stream(1000 + i)).error.empty());
  }
}
