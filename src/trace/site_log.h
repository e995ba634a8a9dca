// Remembers the stack behind each signature, so that a trace's reader can show names. Only kept
// while a trace is asked for. Hot: a fixed table without locks; full, it forgets what is new.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

struct Site {
  std::uint64_t signature = 0;  // 0: the entry is free
  // Return addresses, the innermost first; null behind the last.
  const void* frames[tuning::kMaxFrames] = {};
};

// Makes the table. Once, before the first signature; without it nothing is remembered.
void open_site_log();

// Any thread; the first one to name a signature leaves its stack.
void note_site(std::uint64_t signature, const void* const* frames, int count);

// The table's entries, in no order, among them free ones; none if it was never opened. Call it when
// no other thread notes any more: at the end of the process.
const Site* sites(std::uint32_t& count);

}  // namespace memo
