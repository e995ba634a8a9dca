#include "src/cli/run/hiders.h"

#include <fnmatch.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "src/cli/run/elf_file.h"

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

bool is_from(const Hider& hider, const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  if (fnmatch(hider.file, name.c_str(), 0) != 0) {
    return false;
  }
  if (*hider.defines == '\0') {
    return true;
  }
  const std::optional<ElfFile> elf = read_elf(path);
  return elf && elf->allocators.contains(hider.defines) && !elf->gives_tensors();
}

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
    if (hider.setter == Hider::kOpen) {
      const auto [name, value] = setting_of(hider);
      if (std::getenv(name.c_str()) == nullptr) {
        environment[name] = value;
      }
    }
  }
  return environment;
}

}  // namespace memo::cli
