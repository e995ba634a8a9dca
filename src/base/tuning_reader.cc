// The thresholds of debug builds, and the environment that sets them: see tuning.h. Runs once,
// before main(). In other builds there is nothing here. Cold.
#include "src/base/tuning.h"

#ifdef MEMO_DEBUG
#include <unistd.h>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "src/base/message.h"

namespace memo::tuning {

#define FIXED(type, name, value, unit, reason, noticed)
#define TUNING(type, name, value, unit, reason, noticed) constinit type name{value};
#include "src/base/tuning.def"
#undef TUNING

namespace {

template <typename Type>
bool parse(std::string_view text, Type& value) {
  Type read = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size() || read <= 0) {
    return false;
  }
  value = read;
  return true;
}
template <typename Tag, typename Number>
bool parse(std::string_view text, Quantity<Tag, Number>& value) {
  Number read = 0;
  if (!parse(text, read)) {
    return false;
  }
  value = Quantity<Tag, Number>(read);
  return true;
}

bool set_one(std::string_view row, std::string_view text) {
#define TUNING(type, name, value, unit, reason, noticed) \
  if (row == #name) {                                    \
    return parse(text, name);                            \
  }
#include "src/base/tuning.def"
#undef TUNING
#undef FIXED
  return false;
}

// Ahead of the library's own constructor, which has no priority.
[[gnu::constructor(101)]] void read() {
  const char* text = secure_getenv("MEMO_TUNE");
  const char* wrong = nullptr;
  if (text != nullptr && !set(text, &wrong)) {
    Line() << "MEMO_TUNE: no name=value of a TUNING row of src/base/tuning.def: " << wrong;
    _exit(2);
  }
}

}  // namespace

bool set(const char* text, const char** wrong) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos ||
        !set_one(part.substr(0, equals), part.substr(equals + 1))) {
      *wrong = part.data();
      return false;
    }
    rest.remove_prefix(part.size() == rest.size() ? rest.size() : part.size() + 1);
  }
  return true;
}

}  // namespace memo::tuning
#endif
