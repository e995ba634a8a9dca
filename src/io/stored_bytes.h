// A stored plan from bytes that came from elsewhere than the store. Cold.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/io/store_name.h"

namespace memo {

// The stored plan of that name from its file's bytes, as load_stored() has it. May throw for want
// of memory.
bool parse_stored(const std::vector<char>& bytes, const PlanName& name, std::uint64_t most_height,
                  Stored& stored, std::string_view* problem);

}  // namespace memo
