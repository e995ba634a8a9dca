// Finds the iteration in a thread's stream of large allocations. Pure and cold; O(n) time and
// memory. A loop is believed when it has repeated exactly; a loop that may be a part of an
// iteration (the layers of a transformer) must repeat for longer than such parts do.
// src/learn/README.md has the reasons.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "src/learn/period.h"
#include "src/trace/event.h"

namespace memo {

// The period of the stream's end, or none. The shortest one that holds: sizes and alignments equal
// over at least two shifts and at least min_run calls, lifetimes equal, live bytes back at their
// floor. Sites are ignored: they change during the first iterations under CPython.
std::optional<Period> find_period(std::span<const Allocation> stream, std::uint32_t min_run = 0);

// A loop of `length` calls at the stream's end that has not run for long enough to be believed: it
// may be a part of an iteration, or chance. Sizes, alignments and lifetimes are equal over at least
// `copies` shifts and kRepeatContext and min_run calls, over twice what the same loop has run
// before it broke, and no block stays for good. To be served on trial. O(n).
std::optional<Period> find_period_to_try(std::span<const Allocation> stream, std::uint32_t length,
                                         std::uint32_t copies, std::uint32_t min_run = 0);

// As find_period() for iterations whose sizes change: calls are equal by their sites and
// alignments. Calls without a site are equal to each other only.
std::optional<Period> find_period_of_sites(std::span<const Allocation> stream);

// The same where the host has told where iterations begin: `marks`, ascending, are the numbers of
// allocations made before each. Two equal iterations are enough, or two equal groups of up to four.
std::optional<Period> find_period_told(std::span<const Allocation> stream,
                                       std::span<const std::uint32_t> marks);

}  // namespace memo
