// JSON as text. Cold.
#pragma once

#include <string>

namespace memo::cli {

// As the value's own dump(), but for bytes that are no UTF-8, as names of files and of processes
// may have: they become U+FFFD, where dump() throws. `indent`: -1 for one line.
template <typename Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace memo::cli
