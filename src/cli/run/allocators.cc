// Finds allocators and turns them into environments. Cold.
#include "src/cli/run/allocators.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "src/cli/run/loader.h"
#include "src/cli/run/opening.h"

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
#include "src/cli/run/allocators.def"
#undef PEER
    {kOwnName, kSoname, "", "default settings"},
    {kOwnPlannedName, kSoname, "", "MEMOMALLOC_PLANS of an earlier run"},
};

// The first that is installed, the fastest for small blocks first.
constexpr const char* kBestNext[] = {"tcmalloc", "jemalloc", "mimalloc"};

}  // namespace

std::string foreign_preload() {
  const char* value = std::getenv("LD_PRELOAD");
  std::string kept;
  for (const std::string& entry : preload_entries(value != nullptr ? value : "")) {
    if (!gives_malloc(entry)) {
      kept += (kept.empty() ? "" : ":") + entry;
    }
  }
  return kept;
}

std::optional<std::string> next_allocator(const std::string& word) {
  if (word.find('/') != std::string::npos) {
    return std::filesystem::is_regular_file(word)
               ? std::optional(std::filesystem::absolute(word).string())
               : std::nullopt;
  }
  if (word == "auto") {
    for (const char* name : kBestNext) {
      if (const auto found = next_allocator(name)) {
        return found;
      }
    }
    return "";
  }
  for (const Row& row : kRows) {
    const bool ours = row.soname == std::string_view(kSoname);
    if (word == row.name && *row.settings == '\0' && !ours) {
      const std::string path = *row.soname == '\0' ? "" : find_by_soname(row.soname);
      return *row.soname == '\0' || !path.empty() ? std::optional(path) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string next_allocator_words() {
  std::string words = "auto";
  for (const Row& row : kRows) {
    if (*row.settings == '\0' && row.soname != std::string_view(kSoname)) {
      words += std::string(", ") + row.name;
    }
  }
  return words + " or a PATH";
}

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
  if (allocator.name == kOwnName || allocator.name == kOwnPlannedName) {
    environment.merge(opening_environment(chosen_openings(), *environment["LD_PRELOAD"]));
  }
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
    words += (words.empty() ? "" : " ") + name + "=" + shell_word(value.value_or(""));
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
  text.pop_back();
  return text;
}

}  // namespace memo::cli
