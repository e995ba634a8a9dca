// Fuzzes the reading of the MEMOMALLOC_ variables: the input is an environment, its entries
// separated by zero bytes.
//
// Whatever it says: each option is the last good value that a second, plain parser finds too, paths
// expand within their room, and the process stops, with exit code 2, if MEMOMALLOC_STRICT=1 and
// something is bad, and else goes on.
#include <algorithm>
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
bool must_exit = false;

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

// The value of a text of each type of options.def, nothing where it is bad. Named as the types are.
// NOLINTBEGIN(readability-identifier-naming)
struct Plain {
  using Value = std::optional<std::uint64_t>;
  static Value Size(std::string_view text) { return number(text, true); }
  static Value Number(std::string_view text) { return number(text, false); }
  static Value Flag(std::string_view text) {
    const Value value = number(text, false);
    return value && *value <= 1 ? value : std::nullopt;
  }
  static std::optional<std::string> Text(std::string_view text) {
    return text.size() < sizeof(memo::option::Text::value) ? std::optional<std::string>(text)
                                                           : std::nullopt;
  }
  static std::optional<std::string> Path(std::string_view text) { return Text(text); }
  static Value Choice(std::string_view text) { return place({"auto", "always", "never"}, text); }
  static Value Trust(std::string_view text) { return place({"owner", "group"}, text); }
  static Value Numa(std::string_view text) { return place({"local", "interleave", "off"}, text); }

 private:
  static Value place(const std::vector<std::string_view>& names, std::string_view text) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == text) {
        return i;
      }
    }
    return std::nullopt;
  }
};
// NOLINTEND(readability-identifier-naming)

std::string plain(const memo::option::Text& text) {
  return std::string(text.view());
}
template <typename Number>
std::uint64_t plain(Number number) {
  return static_cast<std::uint64_t>(number);
}

// Whether the entry is MEMOMALLOC_NAME=TEXT, and what its text is.
std::optional<std::string_view> text_of(std::string_view entry, std::string_view name) {
  const std::string begin = "MEMOMALLOC_" + std::string(name) + "=";
  return entry.starts_with(begin) ? std::optional(entry.substr(begin.size())) : std::nullopt;
}

// The value that the last good entry gives to `name`, `initial` without one.
template <typename Read, typename Value>
Value expected(const std::vector<std::string>& entries, std::string_view name, Read read,
               Value initial) {
  for (const std::string& entry : entries) {
    if (const auto text = text_of(entry, name)) {
      initial = read(*text).value_or(initial);
    }
  }
  return initial;
}

// Whether the entry is one of ours that no option has, or has a bad value.
bool is_bad(std::string_view entry) {
  if (!entry.starts_with("MEMOMALLOC_") || entry.find('=') == std::string_view::npos) {
    return false;
  }
#define OPTION(type, name, initial, unit, help)  \
  if (const auto text = text_of(entry, #name)) { \
    return !Plain::type(*text);                  \
  }
#include "src/base/options.def"
#undef OPTION
  return true;
}

}  // namespace

extern "C" [[noreturn]] void __wrap__exit(int code) {
  require(must_exit && code == 2);
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
  const bool bad = std::any_of(entries.begin(), entries.end(), is_bad);
  require_of_seed(!bad);
  must_exit = bad && expected(entries, "STRICT", Plain::Flag, std::uint64_t{0}) == 1;
  if (setjmp(before_exit) != 0) {
    return 0;
  }
  memo::read_options(environment.data(), options);
  require(!must_exit);
  static const memo::Options kInitial{};
#define OPTION(type, name, initial, unit, help) \
  require(plain(options.name) == expected(entries, #name, Plain::type, plain(kInitial.name)));
#include "src/base/options.def"
#undef OPTION
  memo::runs_in(options.EXE.view());
  for (const std::uint64_t room : {std::uint64_t{1}, std::uint64_t{16}, std::uint64_t{4096}}) {
    std::vector<char> path(room, '#');
    if (memo::expand_path(options.STATS_FILE.view(), path.data(), room)) {
      require(std::memchr(path.data(), 0, room) != nullptr);
    }
  }
  return 0;
}
