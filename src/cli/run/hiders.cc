#include "src/cli/run/hiders.h"

#include <fnmatch.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "src/cli/run/elf_file.h"

namespace memo::cli {

Setting setting_of(const Hider& hider) {
  const std::string text = hider.setting;
  const std::size_t equals = text.find('=');
  return {text.substr(0, equals), text.substr(equals + 1)};
}

bool is_from(const Hider& hider, const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  const bool whole = std::string_view(hider.file).find('/') != std::string_view::npos;
  if (fnmatch(hider.file, whole ? path.c_str() : name.c_str(), 0) != 0 ||
      name.starts_with("libmemomalloc.so")) {
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

}  // namespace memo::cli
