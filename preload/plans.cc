// The plan file of MEMOMALLOC_PLAN_FILE: read when the engine opens, written at exit. Cold; no lock.
#include "preload/plans.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "preload/process.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/io/export.h"
#include "src/io/plan_file.h"

namespace memo {
namespace {

// The file is somebody else's in what it holds, or may be: it is neither used nor replaced.
bool is_left_alone(const char* path) {
  return is_foreign(path) || !doubt_about(path, g_process.options.PLAN_TRUST).empty();
}

}  // namespace

void complain(const char* what, const char* path, const char* variable) {
  Line() << "cannot write the " << what << " to '" << path << "': " << std::strerror(errno)
         << "; set MEMOMALLOC_" << variable << " to another path";
}

void load_plan_file(const RecursionGuard& guard) {
  const os::NoCancellation whole;
  const Options& options = g_process.options;
  char path[4096];
  if (options.PLAN_FILE.empty() || !expand_path(options.PLAN_FILE.view(), path, sizeof path)) {
    return;
  }
  LoadedPlan plans[PlanStore::kMost];
  std::string_view problem;
  const std::uint32_t count = load_plans(guard, path, g_process.engine.shared().slab_limit, plans,
                                         &problem, options.PLAN_TRUST);
  if (!problem.empty()) {
    Line() << "the plan file '" << path << "' is not used"
           << (is_left_alone(path) ? ", and is left as it is: " : ": ") << problem
           << (is_foreign(path)      ? "; set MEMOMALLOC_PLAN_FILE to another path"
               : is_left_alone(path) ? ""
                                     : "; what is learned now takes its place at exit");
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!g_process.engine.add_plan(guard, std::move(plans[i].plan), plans[i].iteration)) {
      Line() << "a plan of the file '" << path << "' is left out: there is no memory for it";
    }
  }
}

void save_plan_file(const RecursionGuard& guard) {
  const option::Path& file = g_process.options.PLAN_FILE;
  if (file.empty()) {
    return;
  }
  SavedPlan plans[PlanStore::kMost];
  std::uint32_t count = 0;
  g_process.engine.for_each_plan([&](const Schedule* schedule, std::uint32_t iteration) {
    plans[count++] = {schedule, iteration};
  });
  if (count == 0) {
    return;
  }
  char path[4096];
  const bool fits = expand_path(file.view(), path, sizeof path);
  if (fits && is_left_alone(path)) {
    return;  // load_plan_file has said so
  }
  if (!fits || !save_plans(guard, path, {plans, count})) {
    complain("plans", file.value, "PLAN_FILE");
  }
}

}  // namespace memo
