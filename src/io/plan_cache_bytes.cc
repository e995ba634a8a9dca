// See plan_cache_bytes.h. Cold.
#include "src/io/plan_cache_bytes.h"

#include <cstring>
#include <span>

#include "src/io/plan_records.h"

namespace memo {

bool parse_cached(const std::vector<char>& bytes, const PlanName& name, std::uint64_t most_height,
                  Cached& cached, std::string_view* problem) {
  *problem = {};
  if (is_other_version(bytes) || !parse_plan(bytes, most_height, cached.plan, problem)) {
    return false;
  }
  CacheRecord record;
  if (bytes.size() >= sizeof record) {
    std::memcpy(&record, bytes.data() + bytes.size() - sizeof record, sizeof record);
  }
  if (bytes.size() < sizeof record ||
      std::memcmp(record.magic, CacheRecord().magic, sizeof record.magic) != 0) {
    *problem = "it does not say who made it";
  } else if (name_of({cached.plan.plan.get(), cached.plan.iteration},
                     {.beginning = name.keys[0], .program = name.keys[1]}) != name) {
    *problem = "its name is another plan's";
  }
  for (const std::span<char> text :
       {std::span<char>(record.program), std::span<char>(record.machine),
        std::span<char>(record.library)}) {
    text.back() = '\0';
  }
  cached.record = record;
  if (!problem->empty()) {
    cached = {};
  }
  return problem->empty();
}

}  // namespace memo
