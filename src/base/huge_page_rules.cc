#include "src/base/huge_page_rules.h"

#include <sched.h>
#include <string_view>

#include "src/base/os.h"
#include "src/base/proc_file.h"

namespace memo::os {
namespace {

// "always [madvise] never": the word in brackets holds.
bool switched_off(const char* path) {
  LineReader file(path);
  std::string_view line;
  return file.next(line) && line.find("[never]") != std::string_view::npos;
}

// Of processors, as "2-3,7"; an empty line: none.
bool lists_any(const char* path) {
  LineReader file(path);
  std::string_view line;
  return file.next(line) && !line.empty();
}

bool locks_memory(const char* path) {
  LineReader status(path);
  for (std::string_view line; status.next(line);) {
    if (line.starts_with("VmLck:")) {
      return number_in(line) * 1024 >= kHugePage;
    }
  }
  return true;
}

bool is_ordinary() {
  const int policy = sched_getscheduler(0);
  return policy == SCHED_OTHER || policy == SCHED_BATCH;
}

}  // namespace

bool machine_gathers(const HugePageFiles& files) {
  return page_size() == 4096 && can_collapse() && !switched_off(files.enabled) &&
         !switched_off(files.enabled_2_mib) && !lists_any(files.isolated);
}

bool process_gathers(const HugePageFiles& files) {
  return !confined() && !locks_memory(files.status) && is_ordinary() && !places_memory();
}

}  // namespace memo::os
