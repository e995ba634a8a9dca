// Recorded programs through the whole engine, undisturbed and disturbed: what was counted, and where
// each block lay, is what tests/golden/counters.txt says. What changes it on purpose renews the file
// from what this test prints.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "src/cli/trace/trace_reader.h"
#include "src/learn/learn.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::below;
using testing::OwnEngine;
using testing::Random;

struct Case {
  const char* trace;
  std::uint32_t thread = 0;
  std::uint64_t threshold = 65'536;
  std::uint32_t disturbed = 0;  // of 1000 served calls, how many are dropped, doubled or changed
  const char* other = nullptr;  // a second trace, taken in turns of kTurn events
  bool symbolic = false;        // the engine has a plan for changing shapes from the start
};
constexpr std::size_t kTurn = 3000;
constexpr int kTimes = 3;  // that the whole program runs, one after the other

cli::Stream stream_of(const char* trace, std::uint32_t thread, std::uint64_t threshold) {
  cli::Streams streams;
  REQUIRE(cli::read_streams("tests/golden/traces/" + std::string(trace) + ".csv.gz", threshold,
                            streams) == "");
  return streams.at(thread);
}

// Replays a stream's events on the engine. What is touched is a byte of each block.
class Player {
 public:
  Player(Engine& engine, const cli::Stream& stream, std::uint32_t disturbed)
      : engine_(engine), stream_(stream), disturbed_(disturbed) {}

  bool play(std::size_t events) {
    const std::size_t end = std::min(at_ + events, stream_.events.size());
    for (; at_ < end; ++at_) {
      const cli::StreamEvent& event = stream_.events[at_];
      if (event.is_free) {
        free(event.allocation);
      } else {
        call(event.allocation);
      }
    }
    return at_ < stream_.events.size();
  }
  // The program ends, and may begin again.
  void end() {
    for (const auto& [index, pointer] : alive_) {
      engine_.free(pointer);
    }
    alive_.clear();
    at_ = 0;
  }

  std::uint64_t places = 0;  // a hash of where the blocks of slabs lay

 private:
  void call(std::uint32_t index) {
    const Allocation& asked = stream_.allocations[index];
    std::uint64_t size = asked.size;
    std::uint64_t alignment = std::uint64_t{1} << asked.alignment_log2;
    if (disturbed_ != 0 && serving() && below(random_, 1000) < disturbed_) {
      switch (below(random_, 4)) {
        case 0:
          return;
        case 1:
          if (void* more = take(size + 4096, alignment); more != nullptr) {
            engine_.free(more);
          }
          break;
        case 2:
          size += 64;
          break;
        default:
          alignment = 1 << 16;
      }
    }
    if (void* pointer = take(size, alignment); pointer != nullptr) {
      alive_[index] = pointer;
    }
  }
  [[nodiscard]] bool serving() const {
    return engine_.lanes.count() != 0 && engine_.lanes.at(0).phase() == Phase::kServing;
  }
  void* take(std::uint64_t size, std::uint64_t alignment) {
    void* pointer = engine_.allocate({size, alignment, Op::k_malloc, false});
    if (pointer != nullptr) {
      *static_cast<char*>(pointer) = 1;
      engine_.lanes.shared().pool.take_as_written();
      const Place place = engine_.find(pointer);
      const auto offset = static_cast<std::uint64_t>(static_cast<char*>(pointer) -
                                                     engine_.lanes.at(0).slab().space().base());
      places = (places ^ (place.in_slab ? offset : 1)) * 0x9E3779B97F4A7C15ULL;
    }
    return pointer;
  }
  void free(std::uint32_t index) {
    if (const auto at = alive_.find(index); at != alive_.end()) {
      REQUIRE(engine_.free(at->second));
      alive_.erase(at);
    }
  }

  Engine& engine_;
  const cli::Stream& stream_;
  std::uint32_t disturbed_;
  std::size_t at_ = 0;
  Random random_{7};
  std::map<std::uint32_t, void*> alive_;
};

void open_with_plan(Engine& engine, const cli::Stream& stream, const LearnOptions& options) {
  testing::in_thread([&] {
    void* const first = engine.allocate({1 << 20, 64, Op::k_malloc, false});
    engine.lanes.shared().pool.take_as_written();
    engine.free(first);
    const RecursionGuard guard;
    Period period;
    Plan plan = learn_symbolic(guard, stream.allocations, options, &period);
    REQUIRE(plan);
    REQUIRE(engine.plans.add(guard, std::move(plan), period.length));
    engine.thread_ended();
  });
}

// What the pool had at hand is no matter of plans.
bool is_pool_s(std::string_view counter) {
  constexpr std::string_view kPools[] = {
      "at_hand_allocations",  "at_hand_bytes",  "other_allocations", "other_bytes",      "released",
      "fallback_allocations", "fallback_bytes", "fallback_grown",    "fallback_learning"};
  return std::ranges::find(kPools, counter) != std::end(kPools);
}

std::string line_of(const Case& one, const Engine& engine, std::uint64_t places) {
  std::ostringstream line;
  line << one.trace << " thread " << one.thread << " from " << one.threshold << " disturbed "
       << one.disturbed << " with " << (one.other != nullptr ? one.other : "-")
       << (one.symbolic ? " changing" : "") << ":";
  const Counters& counters = engine.lanes.at(0).counters;
#define COUNTER(name, unit, help)                      \
  if (counters.name.get() != 0 && !is_pool_s(#name)) { \
    line << " " #name " " << counters.name.get();      \
  }
#include "src/base/counters.def"
#undef COUNTER
  line << " height " << engine.lanes.at(0).slab().tallest() << " places " << std::hex << places;
  return line.str();
}

std::string play(const Case& one) {
  const cli::Stream stream = stream_of(one.trace, one.thread, one.threshold);
  const cli::Stream other =
      one.other != nullptr ? stream_of(one.other, 0, one.threshold) : cli::Stream();
  Options options;
  options.THRESHOLD = one.threshold;
  std::strcpy(options.PLANNER.value, "greedy-by-size");  // which does not depend on the time
  options.PLAN_TIME = 10'000;
  OwnEngine own(options);
  if (one.symbolic) {
    LearnOptions learning;
    learning.planner = "greedy-by-size";
    learning.least_bytes = one.threshold;
    learning.plan_milliseconds = 10'000;
    open_with_plan(own.engine, stream, learning);
  }
  std::uint64_t places = 0;
  testing::in_thread([&] {
    Player first(own.engine, stream, one.disturbed);
    Player second(own.engine, other, one.disturbed);
    for (int time = 0; time < kTimes; ++time) {
      for (bool more = true; more;) {
        more = first.play(kTurn);
        more = second.play(kTurn) || more;
      }
      first.end();
      second.end();
    }
    places = first.places ^ second.places;
    own.engine.thread_ended();
  });
  return line_of(one, own.engine, places);
}

TEST_CASE("golden: recorded programs are served as they were", "[engine]") {
  constexpr Case kCases[] = {
      {.trace = "mobilenet_v2_b8"},
      {.trace = "mobilenet_v2_b8", .disturbed = 10},
      {.trace = "mobilenet_v2_b8", .disturbed = 150},
      {.trace = "resnet18_two_threads"},
      {.trace = "resnet18_two_threads", .thread = 1},
      {.trace = "resnet18_two_threads", .threshold = 4096, .disturbed = 10},
      {.trace = "train_resnet18_b16"},
      {.trace = "train_resnet18_b16", .disturbed = 10},
      {.trace = "train_resnet18_b16", .threshold = 4096, .disturbed = 3},
      {.trace = "vit_b1"},
      {.trace = "vit_b1", .threshold = 4096, .disturbed = 20},
      {.trace = "jax_mlp_pool"},
      {.trace = "jax_mlp_pool", .threshold = 4096},
      {.trace = "bert_random_length"},
      {.trace = "bert_random_length", .symbolic = true},
      {.trace = "bert_random_length", .disturbed = 10, .symbolic = true},
      {.trace = "bert_random_length", .threshold = 16'384, .disturbed = 2, .symbolic = true},
      {.trace = "mobilenet_v2_b8", .other = "vit_b1"},
      {.trace = "train_resnet18_b16", .disturbed = 5, .other = "mobilenet_v2_b8"},
      {.trace = "bert_random_length", .other = "vit_b1", .symbolic = true},
  };
  std::ifstream file("tests/golden/counters.txt");
  for (const Case& one : kCases) {
    std::string expected;
    std::getline(file, expected);
    const std::string line = play(one);
    if (line != expected) {
      std::printf("%s\n", line.c_str());
    }
    CHECK(line == expected);
  }
}

}  // namespace
}  // namespace memo
