#include "src/base/options.h"

#include <sys/auxv.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

#include "src/base/message.h"
#include "src/base/nearest_name.h"

namespace memo {
namespace {

constexpr std::string_view kPrefix = "MEMOMALLOC_";

bool parse_number(std::string_view text, std::uint64_t& result) {
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  return error == std::errc() && last == text.data() + text.size();
}

bool parse_size(std::string_view text, std::uint64_t& result) {
  std::uint64_t shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  std::uint64_t value = 0;
  if (!parse_number(text.substr(0, text.size() - (shift != 0 ? 1 : 0)), value) ||
      value > (UINT64_MAX >> shift)) {
    return false;
  }
  result = value << shift;
  return true;
}

bool parse_text(std::string_view text, option::Text& result) {
  if (text.size() >= sizeof result.value) {
    return false;
  }
  std::memcpy(result.value, text.data(), text.size());
  result.value[text.size()] = '\0';
  return true;
}

// The value whose place among the names is the text's.
template <typename Value, std::size_t kCount>
bool one_of(const std::string_view (&names)[kCount], std::string_view text, Value& value) {
  const auto* const found = std::ranges::find(names, text);
  value = static_cast<Value>(found - names);
  return found != std::end(names);
}

// One parser for each option type, chosen by the row's type and named as it.
// NOLINTBEGIN(readability-identifier-naming)
struct Parse {
  static bool Size(std::string_view text, std::uint64_t& value) { return parse_size(text, value); }
  static bool Number(std::string_view text, std::uint64_t& value) {
    return parse_number(text, value);
  }
  static bool Flag(std::string_view text, std::uint64_t& value) {
    return parse_number(text, value) && value <= 1;
  }
  static bool Text(std::string_view text, option::Text& value) { return parse_text(text, value); }
  static bool Path(std::string_view text, option::Text& value) { return parse_text(text, value); }
  static bool Choice(std::string_view text, memo::Choice& value) {
    return one_of({"auto", "always", "never"}, text, value);
  }
  static bool Trust(std::string_view text, memo::Trust& value) {
    return one_of({"owner", "group"}, text, value);
  }
  static bool Numa(std::string_view text, memo::Numa& value) {
    return one_of({"local", "interleave", "off"}, text, value);
  }
};
// NOLINTEND(readability-identifier-naming)

enum class Answer { kGood, kBad, kUnknown };

Answer read_one(std::string_view name, std::string_view text, Options& options) {
#define OPTION(type, row, initial, unit, help) \
  if (name == #row) {                          \
    const auto before = options.row;           \
    if (Parse::type(text, options.row)) {      \
      return Answer::kGood;                    \
    }                                          \
    options.row = before;                      \
    return Answer::kBad;                       \
  }
#include "src/base/options.def"
#undef OPTION
  return Answer::kUnknown;
}

// Empty if no variable's name is like it.
std::string_view meant(std::string_view name) {
  if (name == "PLAN_FILE") {  // of earlier versions; a folder has taken its place
    return "PLANS";
  }
  NearestName nearest(name);
#define OPTION(type, row, initial, unit, help) nearest.offer(#row);
#include "src/base/options.def"
#undef OPTION
  return nearest.found();
}

}  // namespace

void read_options(char** environment, Options& options, bool (*is_planner)(std::string_view)) {
  bool bad = false;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    const std::size_t equals = pair.find('=');
    if (!pair.starts_with(kPrefix) || equals == std::string_view::npos) {
      continue;
    }
    const std::string_view name = pair.substr(kPrefix.size(), equals - kPrefix.size());
    const std::string_view text = pair.substr(equals + 1);
    const bool known = name != "PLANNER" || is_planner == nullptr || is_planner(text);
    const Answer answer = known ? read_one(name, text, options) : Answer::kBad;
    if (answer != Answer::kGood) {
      bad = true;
      const std::string_view other = answer == Answer::kBad ? std::string_view() : meant(name);
      Line() << (answer == Answer::kBad ? "bad value of " : "unknown variable ")
             << pair.substr(0, equals) << (answer == Answer::kBad ? ": '" : ", set to '") << text
             << (answer == Answer::kBad ? "'; the default is used" : "'; it has no effect")
             << (other.empty() ? "" : "; did you mean MEMOMALLOC_") << other
             << (other.empty() ? "" : "?") << " (`memomalloc options` lists them)";
    }
  }
  if (bad && options.STRICT != 0) {
    Line() << "stopping, since MEMOMALLOC_STRICT=1";
    _exit(2);
  }
}

bool expand_path(std::string_view path, char* result, std::uint64_t room) {
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    char piece[256] = {path[i], '\0'};
    if (path[i] == '%' && i + 1 < path.size() && (path[i + 1] == 'p' || path[i + 1] == 'h')) {
      ++i;
      if (path[i] == 'p') {
        *std::to_chars(piece, piece + sizeof piece - 1, getpid()).ptr = '\0';
      } else if (gethostname(piece, sizeof piece - 1) != 0) {
        std::strcpy(piece, "unknown");
      }
    }
    const std::size_t count = std::strlen(piece);
    if (size + count + 1 > room) {
      return false;
    }
    std::memcpy(result + size, piece, count);
    size += count;
  }
  result[size] = '\0';
  return true;
}

bool runs_in(std::string_view names) {
  if (names.empty()) {
    return true;
  }
  char path[1024];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  const std::string_view file =
      last_part({path, static_cast<std::size_t>(std::max<ssize_t>(size, 0))});
  const auto* called = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const std::string_view started_as = called != nullptr ? last_part(called) : "";
  while (!names.empty()) {
    const std::size_t colon = names.find(':');
    const std::string_view name = names.substr(0, colon);
    if (!name.empty() && (name == file || name == started_as)) {
      return true;
    }
    names = colon == std::string_view::npos ? std::string_view() : names.substr(colon + 1);
  }
  return false;
}

}  // namespace memo
