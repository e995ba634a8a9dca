// See plans_folder.h. Cold.
#include "src/cli/plan/plans_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace memo::cli {
namespace {

void look_into(const std::string& folder, PlanFile& file) {
  const std::string path = folder + "/" + file.name;
  struct stat status{};
  if (stat(path.c_str(), &status) == 0) {
    file.bytes = static_cast<std::uint64_t>(status.st_size);
    file.used = static_cast<std::uint64_t>(status.st_mtim.tv_sec);
  }
  if (file.half_written) {
    return;
  }
  Cached cached;
  if (!read_plan(folder, file.name, cached, file.problem)) {
    file.other_version = file.problem.empty();
    return;
  }
  const Schedule& schedule = *cached.plan.plan;
  file.record = cached.record;
  file.calls = cached.plan.iteration;
  file.steps = schedule.count;
  file.height = schedule.height;
  file.bound = schedule.lower_bound;
  file.parametric = schedule.symbolic != nullptr;
}

}  // namespace

std::string plans_folder(const std::string& named, std::string& error) {
  const char* variable = std::getenv("MEMOMALLOC_PLANS");
  const std::string text = !named.empty() ? named : variable != nullptr ? variable : "";
  if (!text.empty() && text != "1") {
    char path[4096];
    if (expand_path(text, path, sizeof path)) {
      return path;
    }
    error = "the folder's name is too long";
    return "";
  }
  char path[4096];
  const std::size_t length = user_cache(path, sizeof path);
  if (length == 0 || length >= sizeof path) {
    error = "neither XDG_CACHE_HOME nor HOME names a folder; name one with --plans DIRECTORY";
    return "";
  }
  return path;
}

Trust plans_trust() {
  const char* trust = std::getenv("MEMOMALLOC_PLAN_TRUST");
  return trust != nullptr && std::string_view(trust) == "group" ? Trust::kGroup : Trust::kOwner;
}

bool read_plan(const std::string& folder, const std::string& name, Cached& cached,
               std::string& problem) {
  const RecursionGuard guard;
  PlanName parsed;
  if (!parse_name(name, parsed)) {
    problem = "its name is no cached plan's";
    return false;
  }
  std::string_view reason;
  const bool good =
      load_cached(guard, folder.c_str(), parsed, kAnyHeight, plans_trust(), cached, &reason);
  problem = reason;
  return good;
}

std::optional<std::vector<PlanFile>> read_plans_folder(const std::string& folder,
                                                       std::string& error) {
  const std::string_view doubts = doubt_about_cache(folder.c_str(), plans_trust());
  if (!doubts.empty()) {
    error = folder + ":0: the folder is not used: " + std::string(doubts);
    return std::nullopt;
  }
  std::error_code failed;
  std::vector<PlanFile> files;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    PlanFile file;
    file.name = entry->path().filename().string();
    file.half_written =
        file.name.ends_with(".tmp") && file.name.find(".plan.") != std::string::npos;
    if (file.half_written || file.name.ends_with(".plan")) {
      files.push_back(file);
    }
  }
  if (failed) {
    error = folder + ":0: cannot be read: " + failed.message();
    return std::nullopt;
  }
  std::sort(files.begin(), files.end(),
            [](const PlanFile& a, const PlanFile& b) { return a.name < b.name; });
  for (PlanFile& file : files) {
    look_into(folder, file);
  }
  return files;
}

}  // namespace memo::cli
