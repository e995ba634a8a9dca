// What may have memory without being written: the bound for slabs and for the pool. Hot.
//
// A page is there because the program has written it, or since it lies in a range of which a look
// at all of it has shown that the program writes it in each iteration. Beyond that a few are taken
// along, as many as may_lack() allows, and in new memory what src/serve/ahead.h allows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

// Bytes that may have memory beside `written` ones.
constexpr std::uint64_t may_lack(std::uint64_t written) {
  return std::min(written / tuning::kUnwrittenShare, tuning::kMaxUnwritten);
}

// Of memory of `bytes` the part that is there counts as all of it.
constexpr bool is_whole(std::uint64_t bytes, std::uint64_t there) {
  return sub_sat(bytes, there) <= may_lack(there);
}

}  // namespace memo
