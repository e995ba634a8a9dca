// Replays a recorded stream of a GPU's allocations on src/gpu over the fake driver, with work that
// ends late and in random order, and watches that no two blocks that are alive or unfinished share
// memory. The watching knows addresses and streams only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/gpu/device.h"

namespace replay {

struct Row {
  char op = 0;  // b, a, f: see streams.py
  std::uint32_t block = 0;
  std::uint64_t size = 0;
  std::uint32_t stream = 0;
};

// The rows of tests/gpu/streams/NAME.csv.gz; empty if it cannot be read.
std::vector<Row> read(const std::string& path);

struct Options {
  // A busy machine makes the plans of an idle one.
  memo::gpu::Settings settings{.plan_milliseconds = 10000};
  std::uint64_t seed = 1;
  std::uint64_t memory = std::uint64_t{80} << 30;
  bool late = true;  // work ends late; false: at once
};

struct Outcome {
  std::uint64_t alive = 0;     // most bytes asked for and alive at once
  std::uint64_t reserved = 0;  // most bytes that the device held at once
  std::uint64_t refused = 0;   // calls that got no memory
  std::string statistics;
  std::vector<std::string> faults;  // at most ten
};

// The figure `name` of a device's statistics; 0: there is none.
std::uint64_t number_in(const std::string& json, const std::string& name);

// The driver's table over tests/gpu/fake_driver.h.
memo::gpu::Driver fake_driver();

Outcome run(const std::vector<Row>& rows, const Options& options);

}  // namespace replay
