// See replay.h.
#include "tests/gpu/replay.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <unordered_map>

#include "tests/gpu/fake_driver.h"

namespace replay {
namespace {

using memo::gpu::Address;
using memo::gpu::Stream;

Stream handle_of(std::uint32_t stream) {
  return reinterpret_cast<Stream>(std::uint64_t{stream} * 16);
}

struct Block {
  Address address = 0;
  std::uint64_t size = 0;
  std::uint32_t stream = 0;
  bool elsewhere = false;  // recorded on another stream
};

class Run {
 public:
  Run(const memo::gpu::Driver& driver, const Options& options)
      : options_(options), random_(options.seed), device_(driver, 0, 1, options.settings) {}

  void row(const Row& row) {
    fake::World& world = fake::world();
    if (options_.late) {
      world.progress(random_);
    } else {
      for (auto& [stream, queue] : world.queues) {
        queue.done = queue.issued;
      }
      world.uses.clear();
    }
    if (row.op == 'f') {
      free(row.block);
    } else {
      allocate(row);
    }
    outcome_.alive = std::max(outcome_.alive, alive_);
    outcome_.reserved = std::max(outcome_.reserved, world.used);
  }

  Outcome finish() {
    outcome_.statistics = device_.statistics();
    while (!blocks_.empty()) {
      free(blocks_.begin()->first);
    }
    for (auto& [stream, queue] : fake::world().queues) {
      queue.done = queue.issued;
    }
    device_.give_back();
    if (fake::world().used != 0) {
      fault("memory stays with a device that has no blocks");
    }
    if (!device_.valid()) {
      fault("the device's books do not agree");
    }
    for (const std::string& text : fake::world().faults) {
      fault(text);
    }
    return std::move(outcome_);
  }

 private:
  void fault(const std::string& text) {
    if (outcome_.faults.size() < 10) {
      outcome_.faults.push_back(text);
    }
  }

  void allocate(const Row& row) {
    fake::World& world = fake::world();
    const Stream stream = handle_of(row.stream);
    const auto result = device_.allocate(row.size, stream);
    ++calls_;
    if (!result.error.empty()) {
      ++outcome_.refused;
      return;
    }
    const Address end = result.address + row.size;
    if (world.disturbed(result.address, end, stream)) {
      fault("two blocks that are alive or unfinished share memory, at call " +
            std::to_string(calls_));
    }
    if (!world.mapped(result.address, end)) {
      fault("a block has no memory, at call " + std::to_string(calls_));
    }
    world.alive(result.address, end);
    world.issue(stream);
    Block& block = blocks_[row.block];
    block = {result.address, row.size, row.stream, false};
    alive_ += row.size;
    // What a loader's stream copies, the main stream reads.
    if (row.stream != 0 && random_() % 8 != 0) {
      device_.record_stream(result.address, handle_of(0));
      block.elsewhere = true;
    }
  }

  void free(std::uint32_t number) {
    const auto found = blocks_.find(number);
    if (found == blocks_.end()) {
      return;  // it was refused
    }
    fake::World& world = fake::world();
    const Block block = found->second;
    blocks_.erase(found);
    const Address end = block.address + block.size;
    const Stream stream = handle_of(block.stream);
    std::vector<fake::Use> uses = {{block.address, end, stream, world.issue(stream)}};
    if (block.elsewhere) {
      uses.push_back({block.address, end, handle_of(0), world.issue(handle_of(0))});
    }
    world.freed(block.address, uses);
    alive_ -= block.size;
    if (!device_.free(block.address)) {
      fault("a block is not known");
    }
  }

  Options options_;
  std::mt19937_64 random_;
  memo::gpu::Device device_;
  std::unordered_map<std::uint32_t, Block> blocks_;
  std::uint64_t alive_ = 0;
  std::uint64_t calls_ = 0;
  Outcome outcome_;
};

}  // namespace

std::uint64_t number_in(const std::string& json, const std::string& name) {
  const auto at = json.find('"' + name + "\":");
  return at == std::string::npos ? 0
                                 : std::strtoull(json.c_str() + at + name.size() + 3, nullptr, 10);
}

std::vector<Row> read(const std::string& path) {
  std::vector<Row> rows;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) {
    return rows;
  }
  char line[128];
  while (gzgets(file, line, sizeof line) != nullptr) {
    Row row;
    unsigned long long size = 0;
    if (std::sscanf(line, "%c,%u,%llu,%u", &row.op, &row.block, &size, &row.stream) == 4) {
      row.size = size;
      rows.push_back(row);
    }
  }
  gzclose(file);
  return rows;
}

extern "C" {
#define DRIVER(name, symbol, parameters) int symbol parameters;
using memo::gpu::AccessRight;
using memo::gpu::AllocationProperties;
using memo::gpu::Context;
using memo::gpu::Event;
using memo::gpu::Handle;
#include "src/gpu/driver.def"
#undef DRIVER
}

memo::gpu::Driver fake_driver() {
  memo::gpu::Driver driver;
#define DRIVER(name, symbol, parameters) driver.name = symbol;
#include "src/gpu/driver.def"
#undef DRIVER
  if (!driver.start().empty()) {
    std::abort();
  }
  return driver;
}

Outcome run(const std::vector<Row>& rows, const Options& options) {
  const memo::gpu::Driver driver = fake_driver();
  fake::world().restart(options.memory, false);
  Run run(driver, options);
  for (const Row& row : rows) {
    run.row(row);
  }
  return run.finish();
}

}  // namespace replay
