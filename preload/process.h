// All that is global: one constinit object, defined in lifecycle.cc. Hot.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/bootstrap.h"
#include "preload/c10_callers.h"
#include "preload/next.h"
#include "preload/state.h"
#include "src/base/options.h"
#include "src/engine/catalogue.h"
#include "src/engine/engine.h"

namespace memo {

struct Process {
  // Read by every malloc and free, so together in one cache line, which nothing writes after
  // start-up but once, where a limit is seen. Sizes below `fast_below` and pointers below `lowest`
  // go straight to the underlying allocator; the initial zeros send every call the slow way, where
  // it is looked up.
  alignas(64) std::uint64_t fast_below = 0;
  std::uint64_t lowest = 0;
  Next next;

  alignas(64) Engine engine;
  Catalogue catalogue;  // of the plan cache
  Options options;
  Bootstrap bootstrap;
  C10Callers c10;
  std::atomic<std::uint32_t> early{
      0};                       // large calls made before the engine was asked for the first time
  std::uint64_t threshold = 0;  // bytes of the smallest block that is watched
  bool observes = false;        // nothing is served (observe.h)
  bool looking = false;         // find_next is at work on this, the only, thread
  // A child that fork() has not told of: the C library's locks may be those of threads that it does
  // not have. Nothing that a call does besides may wait for them: no trim, no thread.
  bool bare_child = false;
  bool is_auditor =
      false;  // the dynamic linker has loaded the library as an auditor, which it is not

  // What a forked child keeps; its reporter is named apart (reporter.h).
  state::Reporter reporter;
  state::Preceding preceding;
  state::SystemNames system_names;
  state::Once once;
#define FEATURE(name, State) state::State name;
#include "preload/features.def"
#undef FEATURE
};

// Hidden also where it is only declared: the fast paths then address its fields without a look at
// the GOT.
[[gnu::visibility("hidden")]] extern constinit Process g_process;

}  // namespace memo
