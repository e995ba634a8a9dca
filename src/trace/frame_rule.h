// How to get from a frame to its caller's: what the unwind tables (.eh_frame) say of one return
// address, as one word. Hot, though called once an address: call stacks remember the answer.
#pragma once

#include <cstdint>

namespace memo {

// Where a caller's registers are, by the frame's own. The canonical frame address (CFA) is what the
// stack pointer was before the call. Offsets count words of 8 bytes.
struct FrameRule {
  enum class Cfa : std::uint8_t {
    kNone,    // unknown, or the outermost frame: the walk ends here
    kFromSp,  // stack pointer + cfa_at
    kFromFp,  // frame pointer + cfa_at
    kAtFp,    // the word at frame pointer + cfa_at: of a function that aligned its stack
  };
  enum class Saved : std::uint8_t {
    kNo,     // the caller's frame pointer is still in its register
    kAtCfa,  // at CFA + fp_at
    kAtFp,   // at frame pointer + fp_at
  };
  Cfa cfa = Cfa::kNone;
  Saved fp = Saved::kNo;
  std::int16_t cfa_at = 0;
  std::int16_t fp_at = 0;
  std::int16_t return_at = 0;  // the return address is at CFA + return_at
};
static_assert(sizeof(FrameRule) == 8);

// The part of a module that the tables are in, and their index (.eh_frame_hdr).
struct UnwindTables {
  std::uint64_t low = 0;  // nothing outside [low, high) is read
  std::uint64_t high = 0;
  std::uint64_t index = 0;  // 0: the module has none
};

// The rule for a frame that will go on at `return_address`. Cfa::kNone where the tables do not
// cover it, say that it has no caller, or say it in a way that no compiler needs for the registers
// above (signal frames and procedure linkage do). Reads the tables alone; no lock, no system call.
//
// Source: DWARF 5, 6.4; Linux Standard Base 5.0, 10.6 (.eh_frame and .eh_frame_hdr); the registers'
// numbers are those of the processors' ABI supplements.
FrameRule find_frame_rule(const UnwindTables& tables, std::uint64_t return_address);

}  // namespace memo
