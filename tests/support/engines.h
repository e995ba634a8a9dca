// An engine of a test's own, and programs that run on it: every block is filled with words made
// from its id and compared when it is freed. Failures are counted, since several threads may find
// them. For tests only.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "src/base/bits.h"
#include "src/base/guard.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/engine.h"
#include "tests/support/process.h"

namespace memo::testing {

// Use it from threads that in_thread() or std::thread made, since a thread belongs to one engine.
// The region is given back at the end, so that a process may have many engines one after the other.
class OwnEngine {
 public:
  explicit OwnEngine(const Options& options = {}, const EngineHost& host = {}) : options_(options) {
    engine.configure(options_, host);
  }
  ~OwnEngine() {
    if (engine.lanes.opened()) {
      const std::uint64_t space = engine.lanes.region.at(0).bytes();
      unmap(reinterpret_cast<char*>(engine.lanes.region.base()), space);
      unmap(engine.lanes.region.tables(), round_up(Space::record_bytes(space), os::page_size()));
    }
  }
  OwnEngine(const OwnEngine&) = delete;
  OwnEngine& operator=(const OwnEngine&) = delete;

  Engine engine;

 private:
  // All spaces' parts of `each` bytes, and the page on either side: what stayed would lie in the way of
  // the next region.
  void unmap(char* start, std::uint64_t each) {
    const std::uint64_t page = os::page_size();
    munmap(start - page, engine.lanes.spaces() * each + 2 * page);
  }

  Options options_;
};

struct Block {
  char* start = nullptr;
  std::uint64_t size = 0;
  std::uint64_t id = 0;
  bool owned = false;  // the engine's, not malloc's

  [[nodiscard]] std::uint64_t word(std::uint64_t at) const {
    return (id + at) * 0x9E3779B97F4A7C15ULL;
  }
  // Eight places of every page and the very end; sizes are at least 8.
  template <typename Function>
  void each_place(Function&& function) const {
    for (std::uint64_t at = 0; at + 8 <= size; at += 512) {
      function(at);
    }
    function(size - 8);
  }
  void fill() const {
    each_place([&](std::uint64_t at) {
      const std::uint64_t value = word(at);
      std::memcpy(start + at, &value, 8);
    });
  }
  // The last word lies over others, so it is compared alone where they meet.
  [[nodiscard]] bool whole() const {
    bool good = true;
    each_place([&](std::uint64_t at) {
      std::uint64_t value = 0;
      std::memcpy(&value, start + at, 8);
      good = good && (value == word(at) || (at + 8 > size - 8 && at != size - 8));
    });
    return good;
  }
  [[nodiscard]] bool zero() const {
    return start[0] == 0 && std::memcmp(start, start + 1, size - 1) == 0;
  }
};

struct ProgramStep {
  std::uint64_t size = 0;
  std::uint32_t lifetime = 1;  // allocations until it is freed
};
using Program = std::vector<ProgramStep>;

// An iteration after which nothing is alive.
inline Program some_program(Random& random, std::uint32_t count, std::uint64_t largest = 200'000) {
  Program program(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    program[i].size = 65'536 + below(random, largest - 65'536);
    program[i].lifetime = std::min(1 + static_cast<std::uint32_t>(below(random, 8)), count - i);
  }
  return program;
}

inline Program program_of(std::uint64_t seed, std::uint32_t count = 40) {
  Random random(seed);
  return some_program(random, count);
}

// One that the pool has memory at hand for, and whose slab is too tall to be taken speculatively: it is served when it is
// believed.
inline Program untried_program() {
  Program program{{std::uint64_t{10} << 20, 41}};
  for (std::uint64_t i = 0; i < 40; ++i) {
    program.push_back({200'000 - 3000 * i, 1});
  }
  return program;
}

inline std::vector<std::uint64_t> sizes_of(const Program& program) {
  std::vector<std::uint64_t> sizes;
  for (const ProgramStep& step : program) {
    sizes.push_back(step.size);
  }
  return sizes;
}

// At least for so long.
inline void rest_for(Nanos time) {
  const Nanos begin = os::nanoseconds();
  while (os::nanoseconds() - begin < time && os::rest()) {
  }
}

// Runs programs on the calling thread.
class Driver {
 public:
  explicit Driver(Engine& engine, std::uint64_t first_id = 1) : engine_(engine), id_(first_id) {}
  ~Driver() { free_due(UINT64_MAX); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  Block take(std::uint64_t size, std::uint64_t alignment = 64, bool zero = false) {
    Block block{nullptr, size, id_++, true};
    block.start = static_cast<char*>(engine_.allocate({size, alignment, Op::k_malloc, zero}));
    if (block.start == nullptr) {
      ++passed_on;
      block.owned = false;
      block.start = static_cast<char*>(std::aligned_alloc(alignment, round_up(size, alignment)));
      return finish(block, false, alignment);
    }
    wrong += engine_.owns(block.start) && engine_.size(block.start) >= size ? 0U : 1U;
    return finish(block, zero, alignment);
  }
  void release(const Block& block) {
    wrong += block.whole() ? 0U : 1U;
    if (block.owned) {
      wrong += engine_.free(block.start) ? 0U : 1U;
    } else {
      std::free(block.start);
    }
  }

  // One step: what is due is freed after it.
  void step(const ProgramStep& step, std::uint64_t alignment = 64, bool zero = false) {
    keep(take(step.size, alignment, zero), step.lifetime);
  }
  void keep(const Block& block, std::uint32_t lifetime) {
    ++time_;
    alive_.emplace(time_ + lifetime - 1, block);
    free_due(time_);
  }
  void iterate(const Program& program, std::uint32_t times = 1) {
    for (std::uint32_t i = 0; i < times; ++i) {
      for (const ProgramStep& one : program) {
        step(one);
      }
    }
  }
  void free_due(std::uint64_t time) {
    while (!alive_.empty() && alive_.begin()->first <= time) {
      release(alive_.begin()->second);
      alive_.erase(alive_.begin());
    }
  }

  std::atomic<std::uint64_t> wrong{0};  // blocks that were not what they must be
  std::uint64_t passed_on = 0;          // calls that the engine left to the underlying allocator

 private:
  Block finish(const Block& block, bool zero, std::uint64_t alignment) {
    wrong += reinterpret_cast<std::uint64_t>(block.start) % alignment == 0 ? 0U : 1U;
    wrong += !zero || block.zero() ? 0U : 1U;
    block.fill();
    return block;
  }

  Engine& engine_;
  std::uint64_t id_;
  std::uint64_t time_ = 0;
  std::multimap<std::uint64_t, Block> alive_;  // by the time of their free
};

// Iterations until `lane` serves, at most `most`.
inline std::uint32_t iterations_until_serving(Driver& driver, const Program& program,
                                              const Lane& lane, std::uint32_t most = 12) {
  std::uint32_t count = 0;
  while (lane.phase() != Phase::kServing && count < most) {
    driver.iterate(program);
    ++count;
  }
  return count;
}

// Runs `function(driver)` on a thread of its own, the engine's first, once a plan serves its program.
template <typename Function>
void when_serving(Engine& engine, const Program& program, Function&& function) {
  in_thread([&] {
    Driver driver(engine);
    driver.iterate(program, 10);
    REQUIRE(engine.lanes.at(0).phase() == Phase::kServing);
    function(driver);
  });
}

// Runs `function(engine, driver, lane)` on a thread of its own; no block may have been wrong.
template <typename Function>
void drive(OwnEngine& own, Function&& function) {
  in_thread([&] {
    Driver driver(own.engine);
    driver.iterate({{65'536, 1}});  // the lane exists
    function(own.engine, driver, own.engine.lanes.at(own.engine.lanes.count() - 1));
    driver.free_due(UINT64_MAX);
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}
template <typename Function>
void drive(Function&& function) {
  OwnEngine own;
  drive(own, function);
}

}  // namespace memo::testing
