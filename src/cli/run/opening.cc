// Finds the hook's folder, and sets the variables. Cold.
#include "src/cli/run/opening.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "src/cli/run/hiders.h"

namespace memo::cli {
namespace {

namespace fs = std::filesystem;

// Those of the hook; openings of a variable alone are rows of hiders.def, or here: oneTBB's plug-in
// has its own malloc, glibc's, beside the one of an allocator that is preloaded, and either frees
// what the other gave.
constexpr std::string_view kOpenings[] = {"mlx",      "numpy",   "onnxruntime",
                                          "openvino", "pyarrow", "vllm"};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::istringstream stream{std::string(text)};
  for (std::string word; std::getline(stream, word, ',');) {
    word.erase(std::remove(word.begin(), word.end(), ' '), word.end());
    if (!word.empty()) {
      words.push_back(word);
    }
  }
  return words;
}

// Of Python's hook: in the wheel, the source folder, below the prefix. Empty if it is nowhere.
std::string hook_folder() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* place :
       {"../opening", "../python/memomalloc/opening", "../share/memomalloc/opening"}) {
    if (fs::exists(here / place / "sitecustomize.py", ignored)) {
      return fs::canonical(here / place, ignored);
    }
  }
  return "";
}

}  // namespace

bool opens(std::string_view choice, std::string_view name) {
  bool chosen = true;
  for (const std::string& word : words_of(choice)) {
    if (word == "none" || word == "-" + std::string(name)) {
      return false;
    }
    if (word == name) {
      return true;
    }
    chosen = chosen && (word == "all" || word[0] == '-');
  }
  return chosen;
}

std::string chosen_openings() {
  const char* set = std::getenv("MEMOMALLOC_OPEN");
  return set != nullptr ? set : "";
}

std::string check_openings(const std::string& choice) {
  for (const std::string& word : words_of(choice)) {
    const std::string name = word[0] == '-' ? word.substr(1) : word;
    if (word != "all" && word != "none" &&
        std::find(std::begin(kOpenings), std::end(kOpenings), name) == std::end(kOpenings)) {
      std::string text = "there is no opening '" + name + "'; it takes all, none";
      for (const std::string_view one : kOpenings) {
        text.append(", ").append(one);
      }
      return text;
    }
  }
  return "";
}

Environment opening_environment(const std::string& choice, const std::string& preload, bool cuda) {
  Environment environment;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (std::getenv(name.c_str()) == nullptr) {
      environment[name] = value;
    }
  };
  for (const Hider& hider : kHiders) {
    if (hider.kind == Hider::kVariable && opens(choice, hider.name)) {
      const auto [name, value] = setting_of(hider);
      add(name, value);
    }
  }
  if (preload.find(':') != std::string::npos && opens(choice, "openvino")) {
    add("TBB_ENABLE_SANITIZERS", "1");
  }
  const bool any = cuda || std::any_of(std::begin(kOpenings), std::end(kOpenings),
                                       [&](auto name) { return opens(choice, name); });
  if (const std::string folder = any ? hook_folder() : ""; !folder.empty()) {
    const char* set = std::getenv("PYTHONPATH");
    const std::string rest = set != nullptr ? set : "";
    if ((":" + rest + ":").find(":" + folder + ":") == std::string::npos) {
      environment["PYTHONPATH"] = rest.empty() ? folder : folder + ":" + rest;
    }
  }
  return environment;
}

}  // namespace memo::cli
