#include "src/trace/call_stack.h"

#include "src/trace/code_location.h"

namespace memo {
namespace {

constexpr std::uint64_t kWord = 8;

// A return address without its signature (pointer authentication), which lies in the bits that the
// kernel's addresses do not use.
std::uint64_t unsigned_address(std::uint64_t pc) {
#if defined(__aarch64__)
  register std::uint64_t address asm("x30") = pc;
  asm("hint #7" : "+r"(address));  // xpaclri; nothing on a processor that does not sign
  return address;
#else
  return pc;
#endif
}

// The word at `address`, if it lies in the part of the stack that is in use. What is there may be
// another frame's variable, which sanitizers must not judge.
[[gnu::no_sanitize("address", "thread")]] bool read(const StackBounds& stack, std::uint64_t sp,
                                                    std::uint64_t address, std::uint64_t& word) {
  if (address % kWord != 0 || address < sp || address >= stack.high ||
      stack.high - address < kWord) {
    return false;
  }
  word = *reinterpret_cast<const std::uint64_t*>(address);
  return true;
}

std::uint64_t at(std::uint64_t start, std::int64_t words) {
  return start + static_cast<std::uint64_t>(words) * kWord;
}

bool find_cfa(const StackBounds& stack, const FrameRule& rule, const FrameState& frame,
              std::uint64_t& cfa) {
  switch (rule.cfa) {
    case FrameRule::Cfa::kFromSp:
      cfa = at(frame.sp, rule.cfa_at);
      return true;
    case FrameRule::Cfa::kFromFp:
      cfa = at(frame.fp, rule.cfa_at);
      return true;
    case FrameRule::Cfa::kAtFp:
      return read(stack, frame.sp, at(frame.fp, rule.cfa_at), cfa);
    case FrameRule::Cfa::kNone:
      break;
  }
  return false;
}

// Goes on to the caller's frame; false where there is none that can be reached.
bool step(const StackBounds& stack, const FrameRule& rule, FrameState& frame) {
  std::uint64_t cfa = 0;
  std::uint64_t pc = 0;
  // Frames lie further up from one to the next, so a walk ends.
  if (!find_cfa(stack, rule, frame, cfa) || cfa <= frame.sp || cfa > stack.high ||
      !read(stack, frame.sp, at(cfa, rule.return_at), pc)) {
    return false;
  }
  if (rule.fp != FrameRule::Saved::kNo) {
    const std::uint64_t from = rule.fp == FrameRule::Saved::kAtCfa ? cfa : frame.fp;
    if (!read(stack, frame.sp, at(from, rule.fp_at), frame.fp)) {
      return false;
    }
  }
  frame.pc = unsigned_address(pc);
  frame.sp = cfa;
  return frame.pc != 0;
}

}  // namespace

std::uint64_t StackBounds::room() const {
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  return here > low && here <= high ? here - low : 0;
}

int walk_stack(const StackBounds& stack, const FrameState& innermost, const void** frames,
               std::uint64_t* places, int most) {
  FrameState frame = innermost;
  frame.pc = unsigned_address(frame.pc);
  if (frame.sp < stack.low || frame.sp > stack.high || frame.pc == 0) {
    return 0;
  }
  int count = 0;
  do {
    const CodeLocation here = code_location(frame.pc);
    frames[count] = reinterpret_cast<const void*>(frame.pc);
    places[count++] = here.place;
    if (!step(stack, here.rule, frame)) {
      break;
    }
  } while (count < most);
  return count;
}

}  // namespace memo
