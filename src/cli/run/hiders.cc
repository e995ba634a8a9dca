#include "src/cli/run/hiders.h"

#include <cstdlib>
#include <string>

namespace memo::cli {
namespace {

struct Setting {
  std::string name;
  std::string value;
};

// Of a hider that has one.
Setting setting_of(const Hider& hider) {
  const std::string text = hider.setting;
  const std::size_t equals = text.find('=');
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

bool is_open(const Hider& hider) {
  if (*hider.setting == '\0') {
    return false;
  }
  const auto [name, value] = setting_of(hider);
  const char* set = std::getenv(name.c_str());
  return set != nullptr && value == set;
}

Environment opening_environment() {
  Environment environment;
  for (const Hider& hider : kHiders) {
    if (*hider.setting != '\0') {
      const auto [name, value] = setting_of(hider);
      if (std::getenv(name.c_str()) == nullptr) {
        environment[name] = value;
      }
    }
  }
  return environment;
}

}  // namespace memo::cli
