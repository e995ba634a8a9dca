// Catch2 from version 3 on, under the header's name of version 2: what the tests use has the same names.
#pragma once

#include <catch2/catch_all.hpp>
#include <string>

using Catch::Approx;

namespace Catch {

inline auto Contains(const std::string& text) {
  return Matchers::ContainsSubstring(text);
}

}  // namespace Catch
