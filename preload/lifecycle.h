// Start, fork, thread end and exit of the process, and what is written about it. Hot but for the
// reports.
#pragma once

#include <cstddef>

namespace memo {

// The dynamic linker takes the library for an auditor (LD_AUDIT), which it is not: it will do nothing. What an auditor of
// `version` answers.
unsigned load_as_auditor(unsigned version);

// Writes the reports, then ends the process as _exit does.
[[noreturn]] void exit_now(int code);

// The statistics as JSON; the length of the whole text, as snprintf counts.
std::size_t stats_json(char* buffer, std::size_t size);

// Gives all slabs and unused memory back, the underlying allocator's included.
void release();

}  // namespace memo
