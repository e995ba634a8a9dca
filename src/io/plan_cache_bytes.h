// A cached plan from bytes that came from elsewhere than the cache. Cold.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/io/plan_cache_name.h"

namespace memo {

// The cached plan of that name from its file's bytes, as load_cached() has it. May throw for want
// of memory.
bool parse_cached(const std::vector<char>& bytes, const PlanName& name, std::uint64_t most_height,
                  Cached& cached, std::string_view* problem);

}  // namespace memo
