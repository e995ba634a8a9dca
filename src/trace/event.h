// What the recorder keeps of one large allocation. Hot: plain data, no pointers.
#pragma once

#include <cstdint>

namespace memo {

// The entry point that asked for the block; spelled in src/trace/ops.def.
enum class Op : std::uint8_t {
#define OP(name) k_##name,
#include "src/trace/ops.def"
#undef OP
};

inline constexpr std::uint32_t kAlive = UINT32_MAX;

// Time is counted in steps: the number of large allocations that the owning thread has made so far.
// An allocation's birth is its index in the stream. A block lives during [birth, death): when it is
// freed after allocation k-1 and before allocation k of its owner (by whichever thread), its death
// is k.
struct Allocation {
  std::uint64_t size = 0;        // bytes asked for
  std::uint64_t site = 0;        // hash of the call stack, 0 if unknown; a witness, not a name
  std::uint32_t death = kAlive;  // step of the free, kAlive while it lives
  std::uint8_t alignment_log2 = 0;
  Op op = Op::k_malloc;
  bool cut = false;  // it lost much of its size while it lived
};

}  // namespace memo
