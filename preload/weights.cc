#include "preload/weights.h"

#include <atomic>

#include "preload/process.h"
#include "preload/reporter.h"
#include "src/base/message.h"
#include "src/base/tuning.h"
#include "src/serve/lasting.h"

namespace memo {
namespace {

// What is alive when a lane begins to serve is marked; what is marked still some iterations later
// is no block of an iteration.
enum class Stage : std::uint8_t { kWaiting, kMarking, kSettling, kOffering, kOffered };

constinit Stage stage = Stage::kWaiting;
constinit bool possible = true;               // the kernel has such merging
constinit Granules at;                        // in the pool, in the walk of the stage
constinit std::uint64_t iterations_then = 0;  // when all was marked
constinit std::uint64_t calls_then = 0;       // at the last turn
constinit std::uint64_t busy_turns = 0;       // that were let pass
constinit std::uint64_t offering = 0;         // bytes, in this walk
constinit std::uint64_t held_then = 0;        // bytes of the pool in use, at the last offer
constinit std::atomic<std::uint64_t> offered{0};
constinit std::atomic<bool> settled{
    false};  // which blocks are weights: nobody marks others just now

// The program asks for nothing just now, or hardly ever does.
bool is_quiet() {
  const std::uint64_t calls = large_calls();
  const bool quiet = calls == calls_then || ++busy_turns >= tuning::kBusyTurns;
  calls_then = calls;
  return quiet;
}

void mark() {
  if (!LastingBlocks(g_process.engine.lanes.shared().pool).mark(at)) {
    at = Granules{0};
    iterations_then = served_iterations();
    stage = Stage::kSettling;
  }
}

bool are_shared() {
  return g_process.options.SHARE == Share::kWeights;
}

// All weights that there are now are known, and offered where they are to be.
void settle() {
  held_then = g_process.engine.lanes.shared().pool.held().live_bytes();
  settled = true;
  stage = Stage::kOffered;
}

void offer() {
  if (LastingBlocks(g_process.engine.lanes.shared().pool).offer(at, offering, possible)) {
    return;
  }
  offered = offering;
  settle();
  if (!possible) {
    Line() << "weights are not shared: this kernel has no same-page merging";
  } else if (g_process.options.VERBOSE >= 1) {
    Line() << "offered " << offering
           << " bytes of weights to the kernel's same-page merging, which works where "
              "/sys/kernel/mm/ksm/run is 1";
  }
}

// More weights have come, it may be: all is looked at anew.
bool has_grown() {
  return g_process.engine.lanes.shared().pool.held().live_bytes() >=
         held_then + tuning::kWorthSharing;
}

}  // namespace

void keep_weights() {
  if (g_process.observes || !g_process.engine.lanes.opened() ||
      (!are_shared() && !g_process.engine.lanes.shared().slabs.nodes.several)) {
    return;
  }
  switch (stage) {
    case Stage::kWaiting:
      if (served_iterations() != 0) {
        stage = Stage::kMarking;
      }
      break;
    case Stage::kMarking:
      mark();
      break;
    case Stage::kSettling:
      if (served_iterations() - iterations_then >= tuning::kSettled) {
        stage = Stage::kOffering;
      }
      break;
    case Stage::kOffering:
      if (!are_shared()) {
        settle();
      } else if (is_quiet()) {
        offer();
      }
      break;
    case Stage::kOffered:
      if (possible && has_grown()) {
        at = Granules{0};
        busy_turns = offering = 0;
        settled = false;
        stage = Stage::kMarking;
      }
      break;
  }
}

std::uint64_t shared_weights() {
  return offered;
}

bool weights_known() {
  return settled;
}

void forget_weights() {
  settled = false;
  stage = Stage::kWaiting;
  at = Granules{0};
  busy_turns = offering = 0;
  offered = 0;
}

}  // namespace memo
