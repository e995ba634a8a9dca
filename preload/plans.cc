// The plan file of MEMOMALLOC_PLAN_FILE: read when the engine opens, written while
// the process serves and at exit. Cold.
#include "preload/plans.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "preload/held_plans.h"
#include "preload/process.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/io/export.h"
#include "src/io/plan_file.h"
#include "src/io/shared_file.h"

namespace memo {
namespace {

// The file is somebody else's in what it holds, or may be: it is neither used nor replaced.
bool is_left_alone(const char* path) {
  return is_foreign(path) || !doubt_about(path, g_process.options.PLAN_TRUST).empty();
}

// The plans that were last read or saved; and the file that holds these and no others.
constinit std::atomic<std::uint64_t> saved_mark{kNoPlans};
constinit FileMark saved_file;
constinit bool complained_of_saving = false;

// True where there are plans that the file does not hold yet.
bool has_news(const HeldPlans& held) {
  return held.count() != 0 && held.mark() != saved_mark;
}

// The plans, and where others have written the file meanwhile theirs, too. Processes that do so at
// once take turns, so that none is lost.
bool save(const RecursionGuard& guard, const char* path, const HeldPlans& held) {
  const FolderLock turn(path);
  if (saved_file != FileMark::of(path)) {
    saved_file = {};
    return merge_plans(guard, path, held.plans(), g_process.options.PLAN_TRUST);
  }
  const bool saved = save_plans(guard, path, held.plans());
  saved_file = FileMark::of(path);
  return saved;
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
  LoadedPlan plans[tuning::kMaxPlans];
  std::string_view problem;
  const std::uint32_t count = load_plans(guard, path, g_process.engine.lanes.shared().slabs.limit,
                                         plans, &problem, options.PLAN_TRUST);
  if (!problem.empty()) {
    Line() << "the plan file '" << path << "' is not used"
           << (is_left_alone(path) ? ", and is left as it is: " : ": ") << problem
           << (is_foreign(path)      ? "; set MEMOMALLOC_PLAN_FILE to another path"
               : is_left_alone(path) ? ""
                                     : "; what is learned now takes its place at exit");
  }
  saved_file = FileMark::of(path);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!g_process.engine.plans.add(guard, std::move(plans[i].plan), plans[i].iteration)) {
      Line() << "a plan of the file '" << path << "' is left out: there is no memory for it";
    }
  }
  saved_mark = HeldPlans().mark();
}

void fork_plans() {
  complained_of_saving = false;
  if (names_process(g_process.options.PLAN_FILE.view())) {
    saved_mark = kNoPlans;
    saved_file = {};
  }
}

bool plans_changed() {
  return !g_process.options.PLAN_FILE.empty() && has_news(HeldPlans());
}

void save_plan_file(const RecursionGuard& guard) {
  const option::Path& file = g_process.options.PLAN_FILE;
  if (file.empty()) {
    return;
  }
  const HeldPlans held;
  if (!has_news(held)) {
    return;
  }
  saved_mark = held.mark();
  char path[4096];
  const bool fits = expand_path(file.view(), path, sizeof path);
  if (fits && is_left_alone(path)) {
    return;  // load_plan_file has said so
  }
  errno = ENAMETOOLONG;
  if ((!fits || !save(guard, path, held)) && !complained_of_saving) {
    complained_of_saving = true;
    complain("plans", file.value, "PLAN_FILE");
  }
}

}  // namespace memo
