// Door 2, the way from the hot side to the outside: statistics and traces of a live process. Cold;
// writes to file descriptors only, since it also runs while the process ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/counters.h"
#include "src/base/guard.h"
#include "src/base/loop.h"
#include "src/trace/recorder.h"

namespace memo {

// The state of a process at one moment.
struct Snapshot {
  Counters counters;
  const char* phase = "idle";
  // The numbers of a page of statistics (src/io/status_page_numbers.def).
#define PROCESS(name, help) std::uint64_t name = 0;
#include "src/io/status_page_numbers.def"
  double plan_seconds = 0;
  // Of the thread that has a plan, or has seen the longest run of a loop: the loop, and what it has
  // shown, what is made of it, and what is needed next (src/engine/confidence.def).
  Loop loop;
  std::string_view evidence;
  std::string_view verdict;
  std::string_view next;

  // Page faults that the blocks served can have spared at most: one for each of their 4 KiB.
  [[nodiscard]] std::uint64_t faults_avoided() const {
    return (counters.planned_bytes.get() + counters.at_hand_bytes.get()) / 4096;
  }
};

// The statistics as one JSON object; returns the length of the whole text, of which at most size -
// 1 bytes and a zero are written.
std::size_t format_json(const Snapshot& snapshot, char* buffer, std::size_t size);

// Writes the JSON to `path`, by way of a new file renamed over it, so that a reader never sees half
// of it. False, with errno, if that fails.
bool write_stats_file(const RecursionGuard&, const char* path, const Snapshot& snapshot) noexcept;

// True for a device or a pipe, where a second document would follow the first.
bool is_written_once(const char* path);

// Writes `name value` lines to stderr, each beginning with `memomalloc: `.
void print_stats(const Snapshot& snapshot);

// Writes a line to stderr for each reason for which allocations fell back.
void print_fallbacks(const Snapshot& snapshot);

// Writes the events of all recorders (made with stamps) in the order in which they happened; the
// thread is the recorder's number. False, with errno, if that fails.
bool write_trace(const RecursionGuard&, const char* path,
                 std::span<const Recorder* const> recorders) noexcept;

// Writes TRACE.sites beside a trace, a CSV `site,symbol`: every stack of the site log
// (src/trace/site_log.h) as its innermost functions outside the C library and this one, by the
// symbols that their modules export, else as module and offset. False, with errno, if that fails.
bool write_sites(const RecursionGuard&, const char* trace) noexcept;

}  // namespace memo
