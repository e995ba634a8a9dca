// See plans_actions.h: plans from one cache to another, by folders and archives. Cold.
#include "src/cli/plan/plans_actions.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/tuning.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/files.h"
#include "src/cli/plan/plans_folder.h"
#include "src/cli/plan/tar.h"
#include "src/io/plan_cache_bytes.h"
#include "src/io/plan_records.h"

namespace memo::cli {
namespace {

constexpr std::string_view kWhatTo = "`memomalloc plans --help` tells what it takes";

struct Named {
  PlanName name;
  Cached cached;
};

void tell(const std::string& what, const std::string& reason) {
  refuse(what + ":0: " + reason, "it is left out");
}

// False, with errno, where the folder cannot be written.
bool put(const CacheTurn& turn, const std::string& folder, const Named& plan) {
  const RecursionGuard guard;
  const SavedPlan saved{plan.cached.plan.plan.get(), plan.cached.plan.iteration};
  return save_cached(guard, turn, folder.c_str(), saved, plan.name, plan.cached.record,
                     plans_trust());
}

int put_all(const std::string& folder, const std::vector<Named>& plans, Added& added) {
  std::optional<CacheTurn> turn;
  for (const Named& plan : plans) {
    if (!turn) {
      turn.emplace(folder.c_str());
    }
    if (!put(*turn, folder, plan)) {
      return refuse(folder + ":0: cannot be written: " + std::strerror(errno), kWhatTo);
    }
    ++added.plans;
  }
  return kDone;
}

std::vector<char> as_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

// The plans of an archive; what cannot be used is named.
void take_archive(const std::string& path, const std::vector<TarFile>& files,
                  std::vector<Named>& plans, Added& added) {
  for (const TarFile& file : files) {
    Named plan;
    std::string_view problem = "it is no cached plan";
    if (parse_name(file.name, plan.name) &&
        parse_cached(as_bytes(file.bytes), plan.name, kAnyHeight, plan.cached, &problem)) {
      plans.push_back(std::move(plan));
      continue;
    }
    tell(path + "(" + file.name + ")",
         problem.empty() ? "another version of the library wrote it" : std::string(problem));
    ++added.refused;
  }
}

}  // namespace

int merge_plans(const std::string& folder, const std::vector<std::string>& others, Added& added) {
  std::vector<Named> plans;
  for (const std::string& other : others) {
    std::string error;
    const auto files = read_plans_folder(other, error);
    if (!files) {
      return refuse(error, kWhatTo);
    }
    for (const PlanFile& file : *files) {
      Named plan;
      std::string problem;
      if (file.half_written || file.other_version) {
        continue;
      }
      if (read_plan(other, file.name, plan.cached, problem) && parse_name(file.name, plan.name)) {
        plans.push_back(std::move(plan));
      } else {
        tell(other + "/" + file.name, problem);
        ++added.refused;
      }
    }
  }
  return put_all(folder, plans, added);
}

int import_plans(const std::string& folder, const std::vector<std::string>& paths, Added& added) {
  std::vector<Named> plans;
  for (const std::string& path : paths) {
    std::string error;
    const std::optional<std::string> text = read_text(path, error);
    if (!text) {
      return refuse(error, kWhatTo);
    }
    if (const auto files = read_tar(*text)) {
      take_archive(path, *files, plans, added);
    } else {
      return refuse(path + ":0: it is no whole archive of plans", kWhatTo);
    }
  }
  return put_all(folder, plans, added);
}

int export_plans(const std::string& folder, const std::string& path,
                 const std::vector<std::string>& beginnings, std::uint64_t& count) {
  std::string error;
  const auto files = read_plans_folder(folder, error);
  if (!files) {
    return refuse(error, kWhatTo);
  }
  std::vector<TarFile> archive;
  for (const PlanFile& file : *files) {
    const bool wanted = beginnings.empty() ||
                        std::any_of(beginnings.begin(), beginnings.end(),
                                    [&](const auto& word) { return file.name.starts_with(word); });
    if (!wanted || file.half_written || file.other_version || !file.problem.empty()) {
      continue;
    }
    auto text = read_text(folder + "/" + file.name, error);
    if (!text) {
      return refuse(error, kWhatTo);
    }
    archive.push_back({file.name, file.used, std::move(*text)});
  }
  count = archive.size();
  const auto is_missing = [&](const std::string& word) {
    return std::none_of(archive.begin(), archive.end(),
                        [&](const TarFile& file) { return file.name.starts_with(word); });
  };
  const auto missing = std::find_if(beginnings.begin(), beginnings.end(), is_missing);
  if (archive.empty() || missing != beginnings.end()) {
    std::fprintf(stderr, "%s:0: there is no %s in it\n", folder.c_str(),
                 archive.empty() ? "such plan" : ("plan '" + printable(*missing) + "'").c_str());
    return kNo;
  }
  return write_text(path, write_tar(archive), error) ? kDone : refuse(error, kWhatTo);
}

}  // namespace memo::cli
