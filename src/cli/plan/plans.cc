// `memomalloc plans`: looks into a plan cache, and keeps it in order. Cold.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/tuning.h"
#include "src/cli/base/arguments.h"
#include "src/cli/base/command.h"
#include "src/cli/base/json_text.h"
#include "src/cli/base/text_table.h"
#include "src/cli/plan/plans_actions.h"
#include "src/cli/plan/plans_folder.h"

namespace memo::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlansRequest {
  std::string action;
  std::vector<std::string> words;
  std::string folder;
  bool json = false;
  CacheLimits limits;
  std::optional<double> days;
};

std::string moment(std::uint64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "";
  gmtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string short_name(const std::string& name) {
  return name.substr(0, 16);
}

bool usable(const PlanFile& file) {
  return file.problem.empty() && !file.other_version && !file.half_written;
}

Json as_json(const PlanFile& file) {
  return {{"name", file.name},
          {"program", printable(file.record.program)},
          {"machine", printable(file.record.machine)},
          {"library", printable(file.record.library)},
          {"made", moment(file.record.made)},
          {"used", moment(file.used)},
          {"calls", file.calls},
          {"steps", file.steps},
          {"height", file.height},
          {"lower_bound", file.bound},
          {"changing_shapes", file.parametric},
          {"file_bytes", file.bytes}};
}

int list(const PlansRequest& wishes, const std::vector<PlanFile>& files) {
  Json plans = Json::array();
  std::vector<std::vector<std::string>> rows{
      {"plan", "calls", "slab bytes", "bound", "used", "made by"}};
  for (const PlanFile& file : files) {
    if (usable(file)) {
      plans.push_back(as_json(file));
      rows.push_back({short_name(file.name), std::to_string(file.calls),
                      std::to_string(file.height), std::to_string(file.bound), moment(file.used),
                      printable(file.record.program)});
    }
  }
  if (wishes.json) {
    std::printf("%s\n", json_text(plans, 2).c_str());
  } else {
    std::fputs(text_table(rows).c_str(), stdout);
  }
  return kDone;
}

void print_plan(const PlanFile& file, const Cached& cached, bool in_json) {
  const Schedule& schedule = *cached.plan.plan;
  Json plan = as_json(file);
  std::vector<std::vector<std::string>> rows{{"step", "bytes", "alignment", "offset"}};
  for (std::uint32_t i = 0; i < schedule.count; ++i) {
    const Step& step = schedule.steps[i];
    const bool placed = step.offset != kUnplanned;
    plan["placement"].push_back({{"size", step.size},
                                 {"alignment", std::uint64_t{1} << step.alignment_log2},
                                 {"offset", placed ? Json(step.offset) : Json(nullptr)}});
    rows.push_back({std::to_string(i), std::to_string(step.size),
                    std::to_string(std::uint64_t{1} << step.alignment_log2),
                    placed ? std::to_string(step.offset) : "-"});
  }
  if (in_json) {
    std::printf("%s\n", json_text(plan, 2).c_str());
    return;
  }
  const std::vector<std::pair<std::string, std::string>> heads = {
      {"plan", file.name},
      {"made by", printable(file.record.program) + ", " + printable(file.record.machine) +
                      ", library " + printable(file.record.library)},
      {"made", moment(file.record.made)},
      {"used", moment(file.used)},
      {"calls", std::to_string(file.calls) + " an iteration, " + std::to_string(file.steps) +
                    " steps" + (file.parametric ? ", for changing shapes; an example:" : "")},
      {"slab", std::to_string(file.height) + " bytes, bound " + std::to_string(file.bound)}};
  for (const auto& [name, value] : heads) {
    std::printf("%-8s %s\n", name.c_str(), value.c_str());
  }
  std::fputs(text_table(rows).c_str(), stdout);
}

int show(const CLI::App& app, const PlansRequest& wishes, const std::vector<PlanFile>& files) {
  int code = kDone;
  for (const std::string& word : wishes.words) {
    bool found = false;
    for (const PlanFile& file : files) {
      Cached cached;
      std::string problem;
      if (file.name.starts_with(word) && usable(file) &&
          read_plan(wishes.folder, file.name, cached, problem)) {
        print_plan(file, cached, wishes.json);
        found = true;
      }
    }
    if (!found) {
      complain(app, "there is no plan '" + word + "' in '" + wishes.folder + "'");
      code = kNo;
    }
  }
  return code;
}

int verify(const PlansRequest& wishes, const std::vector<PlanFile>& files) {
  Json broken = Json::array();
  std::uint64_t good = 0;
  std::uint64_t others = 0;
  std::uint64_t half = 0;
  for (const PlanFile& file : files) {
    good += usable(file) ? 1U : 0U;
    others += file.other_version ? 1U : 0U;
    half += file.half_written ? 1U : 0U;
    if (!file.problem.empty()) {
      broken.push_back({{"name", file.name}, {"reason", file.problem}});
      if (!wishes.json) {
        std::printf("%s/%s:0: %s\n", wishes.folder.c_str(), printable(file.name).c_str(),
                    file.problem.c_str());
      }
    }
  }
  if (wishes.json) {
    const Json told{
        {"plans", good}, {"other_versions", others}, {"half_written", half}, {"broken", broken}};
    std::printf("%s\n", json_text(told, 2).c_str());
  } else {
    std::printf(
        "%llu plans, %llu of another version of the library, %llu half-written, %zu broken\n",
        static_cast<unsigned long long>(good), static_cast<unsigned long long>(others),
        static_cast<unsigned long long>(half), broken.size());
  }
  return broken.empty() ? kDone : kNo;
}

int prune(const PlansRequest& wishes) {
  const RecursionGuard guard;
  constexpr double kDay = 86'400;
  CacheLimits limits = wishes.limits;
  if (wishes.days) {
    constexpr double kEver = 1e18;  // seconds, which 64 bits hold
    limits.unused = static_cast<std::uint64_t>(std::min(*wishes.days * kDay, kEver));
  }
  const Pruned pruned = prune_cache(guard, wishes.folder.c_str(), limits);
  const Json told{
      {"plans", pruned.plans}, {"bytes", pruned.bytes}, {"half_written", pruned.left_over}};
  if (wishes.json) {
    std::printf("%s\n", json_text(told).c_str());
  } else {
    std::printf("removed %llu plans of %llu bytes, and %llu half-written files\n",
                static_cast<unsigned long long>(pruned.plans),
                static_cast<unsigned long long>(pruned.bytes),
                static_cast<unsigned long long>(pruned.left_over));
  }
  return kDone;
}

int add(const PlansRequest& wishes) {
  Added added;
  const int code = wishes.action == "merge" ? merge_plans(wishes.folder, wishes.words, added)
                                            : import_plans(wishes.folder, wishes.words, added);
  if (code != kDone) {
    return code;
  }
  if (wishes.json) {
    std::printf("%s\n",
                json_text(Json{{"plans", added.plans}, {"refused", added.refused}}).c_str());
  } else {
    std::printf("%llu plans are in '%s' now, %llu were refused\n",
                static_cast<unsigned long long>(added.plans), wishes.folder.c_str(),
                static_cast<unsigned long long>(added.refused));
  }
  return added.refused == 0 ? kDone : kNo;
}

int give(const PlansRequest& wishes) {
  std::uint64_t count = 0;
  const int code = export_plans(wishes.folder, wishes.words.front(),
                                {wishes.words.begin() + 1, wishes.words.end()}, count);
  if (code == kDone && wishes.words.front() != "-") {
    wishes.json ? std::printf("%s\n", json_text(Json{{"plans", count}}).c_str())
                : std::printf("%llu plans are in '%s'\n", static_cast<unsigned long long>(count),
                              wishes.words.front().c_str());
  }
  return code;
}

int act(const CLI::App& app, const PlansRequest& wishes) {
  if (wishes.action == "merge" || wishes.action == "import") {
    return add(wishes);
  }
  if (wishes.action == "export") {
    return give(wishes);
  }
  if (std::error_code failed; !std::filesystem::exists(wishes.folder, failed)) {
    return complain(app, "there is no plan cache '" + wishes.folder +
                             "'; `memomalloc run --plans 1 -- COMMAND` makes your own, and "
                             "--plans DIRECTORY names another");
  }
  if (wishes.action == "prune") {
    return prune(wishes);
  }
  std::string error;
  const auto files = read_plans_folder(wishes.folder, error);
  if (!files) {
    return refuse(error, "name a plan cache with --plans DIRECTORY");
  }
  return wishes.action == "list"   ? list(wishes, *files)
         : wishes.action == "show" ? show(app, wishes, *files)
                                   : verify(wishes, *files);
}

}  // namespace

int plans(int argc, char** argv) {
  PlansRequest wishes;
  CLI::App app(
      "Lists, checks and shares the plans that processes have saved: memomalloc plans list\n"
      "They lie in the folder that MEMOMALLOC_PLANS names.");
  app.add_option("ACTION", wishes.action, "one of those below")
      ->required()
      ->check(CLI::IsMember({"list", "show", "verify", "prune", "merge", "export", "import"})
                  .description(""));
  app.add_option("WORD", wishes.words, "what the action needs: NAME, DIRECTORY or FILE");
  std::string named;
  app.add_option("--plans", named,
                 "the folder; 1: the user's own, in the cache folder. Default: that of "
                 "MEMOMALLOC_PLANS, else the user's own")
      ->type_name("DIRECTORY|1");
  app.add_flag("--json", wishes.json, "as JSON");
  std::vector<CLI::Option*> limits = {
      app.add_option("--max-size", wishes.limits.bytes, "prune: keep at most this much")
          ->type_name("SIZE")
          ->transform(bytes())
          ->default_str(std::to_string(wishes.limits.bytes >> 20U) + "M"),
      app.add_option("--max-plans", wishes.limits.plans, "prune: keep at most this many plans")
          ->type_name("NUMBER")
          ->capture_default_str(),
      app.add_option("--older-than", wishes.days,
                     "prune: remove what was not used for so many days")
          ->type_name("DAYS")
          ->check(not_negative())};
  app.footer(
      "Actions:\n"
      "  list                    the plans, and who made them\n"
      "  show NAME...            a plan with all its steps; the beginning of its name is enough\n"
      "  verify                  reads each file; exit code 1 if one cannot be used\n"
      "  prune                   removes what was used longest ago, and half-written files\n"
      "  merge DIRECTORY...      adds the plans of other folders; of two for one loop the lower "
      "stays\n"
      "  export FILE [NAME...]   writes all plans, or those named, to an archive for tar; -: to "
      "stdout\n"
      "  import FILE...          adds the plans of such archives");
  if (auto code = parse(app, argc, argv)) {
    return *code;
  }
  for (const CLI::Option* limit : limits) {
    if (limit->count() != 0 && wishes.action != "prune") {
      return complain(app, limit->get_name() + " is for `plans prune`");
    }
  }
  const bool takes_words = wishes.action == "show" || wishes.action == "merge" ||
                           wishes.action == "export" || wishes.action == "import";
  if (takes_words == wishes.words.empty()) {
    return complain(app, takes_words
                             ? wishes.action + " needs a NAME, DIRECTORY or FILE; " + help_of(app)
                             : "unexpected '" + wishes.words.front() + "'; " + help_of(app));
  }
  std::string error;
  wishes.folder = plans_folder(named, error);
  return wishes.folder.empty() ? complain(app, error) : act(app, wishes);
}

}  // namespace memo::cli
