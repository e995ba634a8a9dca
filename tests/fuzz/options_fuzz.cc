// Fuzzes the reading of the MEMOMALLOC_ variables: the input is an environment, its entries
// separated by zero bytes.
//
// Whatever it says: numbers and texts are the last good value that a second, plain parser finds
// too, paths expand within their room, and only MEMOMALLOC_STRICT=1 stops the process, with exit
// code 2.
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/options.h"
#include "tests/fuzz/require.h"

namespace {

std::jmp_buf before_exit;
bool may_exit = false;

// A number in decimal, with K, M or G behind it where `units` says so.
std::optional<std::uint64_t> number(std::string_view text, bool units) {
  unsigned __int128 value = 0;
  unsigned shift = 0;
  if (units && !text.empty()) {
    const auto unit = std::string_view("kmgKMG").find(text.back());
    if (unit != std::string_view::npos) {
      shift = static_cast<unsigned>(unit % 3 + 1) * 10;
      text.remove_suffix(1);
    }
  }
  if (text.empty()) {
    return std::nullopt;
  }
  for (const char digit : text) {
    if (digit < '0' || digit > '9') {
      return std::nullopt;
    }
    value = value * 10 + static_cast<unsigned>(digit - '0');
    if (value > UINT64_MAX) {
      return std::nullopt;
    }
  }
  value <<= shift;
  return value > UINT64_MAX ? std::nullopt : std::optional(static_cast<std::uint64_t>(value));
}

// The value that the last good entry gives to `name`, `initial` without one.
std::uint64_t expected(const std::vector<std::string>& entries, std::string_view name, bool units,
                       std::uint64_t most, std::uint64_t initial) {
  for (const std::string& entry : entries) {
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
      const auto value = number(std::string_view(entry).substr(name.size() + 1), units);
      initial = value && *value <= most ? *value : initial;
    }
  }
  return initial;
}

// The parser may refuse numbers whose last digit alone decides whether they fit; nobody needs them.
bool equal_or_huge(std::uint64_t got, std::uint64_t wanted) {
  return got == wanted || wanted > UINT64_MAX - (1ULL << 31);
}

}  // namespace

extern "C" [[noreturn]] void __wrap__exit(int code) {
  require(may_exit && code == 2);
  std::longjmp(before_exit, 1);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::vector<std::string> entries;
  static std::vector<char*> environment;
  entries.clear();
  environment.clear();
  for (std::size_t at = 0; at < size;) {
    entries.emplace_back(reinterpret_cast<const char*>(data + at),
                         strnlen(reinterpret_cast<const char*>(data + at), size - at));
    at += entries.back().size() + 1;
  }
  for (std::string& entry : entries) {
    environment.push_back(entry.data());
  }
  environment.push_back(nullptr);
  static memo::Options options;
  options = {};
  may_exit = expected(entries, "MEMOMALLOC_STRICT", false, 1, 0) == 1;
  if (setjmp(before_exit) != 0) {
    return 0;
  }
  memo::read_options(environment.data(), options);
  require(equal_or_huge(options.THRESHOLD,
                        expected(entries, "MEMOMALLOC_THRESHOLD", true, UINT64_MAX, 65536)));
  require(equal_or_huge(options.PLAN_TIME,
                        expected(entries, "MEMOMALLOC_PLAN_TIME", false, UINT64_MAX, 20)));
  require(options.DISABLE == expected(entries, "MEMOMALLOC_DISABLE", false, 1, 0));
  for (const auto* text : {&options.PLANNER, &options.EXE}) {
    require(std::memchr(text->value, 0, sizeof text->value) != nullptr);
  }
  memo::runs_in(options.EXE.view());
  for (const std::uint64_t room : {std::uint64_t{1}, std::uint64_t{16}, std::uint64_t{4096}}) {
    std::vector<char> path(room, '#');
    if (memo::expand_path(options.STATS_FILE.view(), path.data(), room)) {
      require(std::memchr(path.data(), 0, room) != nullptr);
    }
  }
  return 0;
}
