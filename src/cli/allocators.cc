// Finds allocators and turns them into environments. Cold.
#include "src/cli/allocators.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "src/cli/loader.h"

namespace memo::cli {
namespace {

struct Row {
  const char* name;
  const char* soname;
  const char* settings;
  const char* note;
};

constexpr Row kRows[] = {
#define PEER(name, soname, settings, note) {name, soname, settings, note},
#include "src/cli/allocators.def"
#undef PEER
    {kOwnName, kSoname, "", "as it comes"},
    {kOwnPlannedName, kSoname, "", "MEMOMALLOC_PLAN_FILE of an earlier run"},
};

// The user's LD_PRELOAD without any allocator of the table.
std::string foreign_preload() {
  const char* value = std::getenv("LD_PRELOAD");
  std::string text = value != nullptr ? value : "";
  std::replace(text.begin(), text.end(), ' ', ':');
  std::istringstream entries(text);
  std::string kept;
  for (std::string entry; std::getline(entries, entry, ':');) {
    const bool known = std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) {
      const std::string stem =
          std::string(row.soname).substr(0, std::string(row.soname).find(".so"));
      return !stem.empty() && entry.find(stem) != std::string::npos;
    });
    if (!known && !entry.empty()) {
      kept += (kept.empty() ? "" : ":") + entry;
    }
  }
  return kept;
}

}  // namespace

std::vector<Allocator> installed_allocators() {
  std::vector<Allocator> found;
  for (const Row& row : kRows) {
    const std::string soname = row.soname;
    const std::string library = soname == kSoname ? find_own_library()
                                : soname.empty()  ? ""
                                                  : find_by_soname(soname);
    if (soname.empty() || !library.empty()) {
      found.push_back({row.name, library, row.settings, row.note});
    }
  }
  return found;
}

std::vector<std::string> allocator_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    names.emplace_back(row.name);
  }
  return names;
}

Environment environment_of(const Allocator& allocator) {
  Environment environment;
  const std::string rest = foreign_preload();
  environment["LD_PRELOAD"] =
      allocator.library.empty() ? rest : preload_list(allocator.library, rest);
  std::istringstream words(allocator.settings);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    environment[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return environment;
}

std::string shell_words(const Allocator& allocator) {
  std::string words;
  for (const auto& [name, value] : environment_of(allocator)) {
    words += (words.empty() ? "" : " ") + name + "=" + value.value_or("");
  }
  return words;
}

std::string describe_allocators() {
  std::string text;
  for (const Row& row : kRows) {
    text += "  " + std::string(row.name) + std::string(22 - std::string(row.name).size(), ' ') +
            row.note;
    text += *row.soname != '\0' ? " (" + std::string(row.soname) + ")\n" : "\n";
    if (*row.settings != '\0') {
      text += std::string(24, ' ') + row.settings + "\n";
    }
  }
  return text;
}

}  // namespace memo::cli
