// A loop whose blocks grow: a recorded program that decodes with a cache, which is concatenated for
// each token and begins again with each prompt.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "src/base/bits.h"
#include "src/cli/trace/trace_reader.h"
#include "tests/support/engines.h"

namespace memo {
namespace {

using testing::OwnEngine;

TEST_CASE("engine: what a decoder's cache asks for is planned or at hand", "[engine]") {
  cli::Streams streams;
  REQUIRE(cli::read_streams("tests/golden/traces/llama_generate.csv.gz", 65'536, streams) == "");
  const cli::Stream& stream = streams.at(0);
  // Four prompts are learned from; the trace has twelve.
  const std::size_t first = stream.events.size() / 3;
  OwnEngine own;
  testing::in_thread([&] {
    std::map<std::uint32_t, void*> alive;
    std::uint64_t covered = 0;
    std::uint64_t large = 0;
    std::uint64_t live = 0;
    std::uint64_t peak = 0;
    for (std::size_t i = 0; i < stream.events.size(); ++i) {
      const cli::StreamEvent& event = stream.events[i];
      const Allocation& asked = stream.allocations[event.allocation];
      const std::uint64_t bytes = round_up(asked.size, kGranule);
      if (event.is_free) {
        REQUIRE(own.engine.free(alive.at(event.allocation)));
        alive.erase(event.allocation);
        live -= bytes;
      } else {
        void* block = own.engine.allocate(
            {asked.size, std::uint64_t{1} << asked.alignment_log2, Op::k_malloc, false});
        REQUIRE(block != nullptr);
        own.engine.lanes.shared().pool.take_as_written();
        alive[event.allocation] = block;
        live += bytes;
        peak = std::max(peak, live);
      }
      if (i == first) {
        const Counters& counters = own.engine.lanes.at(0).counters;
        covered = counters.planned_bytes.get() + counters.at_hand_bytes.get();
        large = covered + counters.other_bytes.get();
      }
    }
    const Counters& counters = own.engine.lanes.at(0).counters;
    const std::uint64_t now = counters.planned_bytes.get() + counters.at_hand_bytes.get();
    large = now + counters.other_bytes.get() - large;
    CAPTURE(large, now - covered);
    CHECK(large > 0);
    CHECK(now - covered >= large / 100 * 95);
    // All of it for no more memory than was alive at once: what the loop's peak takes, is there.
    const HeldMemory& held = own.engine.lanes.shared().pool.held();
    CHECK(held.live_bytes() + held.dirty_bytes() + own.engine.lanes.at(0).slab_height() <=
          peak + peak / 20);
    for (const auto& [index, block] : alive) {
      REQUIRE(own.engine.free(block));
    }
    own.engine.thread_ended();
  });
}

}  // namespace
}  // namespace memo
