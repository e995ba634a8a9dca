// The checks after the command ran. Cold.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "src/cli/diagnosis.h"
#include "src/cli/elf_file.h"
#include "src/cli/loader.h"

namespace memo::cli {
namespace {

using nlohmann::json;

struct Hider {
  const char* file;
  const char* what;
  const char* advice;
};

constexpr const char* kSecondAllocator =
    "it serves what is below the threshold; blocks asked for by names of its own (mallocx, "
    "mi_malloc, ...) are not seen";

constexpr Hider kHiders[] = {
#define HIDER(file, what, advice) {file, what, advice},
#include "src/cli/hiders.def"
#undef HIDER
};

std::int64_t number(const json& statistics, const char* name) {
  const auto found = statistics.find(name);
  return found != statistics.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

std::string percent(std::int64_t part, std::int64_t whole) {
  const double share =
      whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
  return std::to_string(std::lround(share)) + " %";
}

std::string mebibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// The reasons of fallbacks, the most frequent first: "size 12, order 3".
std::string reasons(const json& statistics) {
  std::vector<std::pair<std::int64_t, std::string>> counts;
  if (const auto found = statistics.find("fallback");
      found != statistics.end() && found->is_object()) {
    for (const auto& [reason, count] : found->items()) {
      if (count.is_number() && count.get<std::int64_t>() > 0) {
        counts.emplace_back(count.get<std::int64_t>(), reason);
      }
    }
  }
  std::sort(counts.rbegin(), counts.rend());
  std::string text;
  for (const auto& [count, reason] : counts) {
    text += (text.empty() ? "" : ", ") + reason + " " + std::to_string(count);
  }
  return text.empty() ? "none" : text;
}

Finding examine_learning(const json& statistics, std::int64_t allocations) {
  const std::int64_t plans = number(statistics, "plans");
  const std::int64_t loaded = number(statistics, "plans_loaded");
  if (plans + loaded > 0) {
    const std::int64_t calls = number(statistics, "symbolic_calls");
    const std::string from_file =
        loaded > 0 ? ", " + std::to_string(loaded) + " of them from the plan file" : "";
    const std::string shapes =
        calls > 0 ? "; plan for changing shapes: " + std::to_string(calls) + " calls, laid out " +
                        std::to_string(number(statistics, "shapes")) + " times"
                  : "";
    return {Level::kGood, "learning",
            std::to_string(plans + loaded) + " plan(s)" + from_file + ", slab " +
                mebibytes(number(statistics, "slab_bytes")) + ", lower bound " +
                mebibytes(number(statistics, "lower_bound_bytes")) + shapes,
            ""};
  }
  const std::string none =
      "no period was found in " + std::to_string(allocations) + " large allocations";
  if (number(statistics, "at_hand_bytes") > 0 && number(statistics, "served_bytes") > 0) {
    return {Level::kNote, "learning", none + "; a pool of learned size serves them",
            "that is all that can be done for threads that allocate in no fixed order; a loop of "
            "few calls needs more iterations"};
  }
  return {Level::kFault, "learning", none,
          "run more iterations (4 or more of one shape); MEMOMALLOC_TRACE_FILE=trace.csv and "
          "`memomalloc "
          "analyze trace.csv` show what repeats"};
}

Finding examine_serving(const json& statistics) {
  const json since = statistics.value("since_serving", json::object());
  const std::int64_t large_since = number(since, "large_bytes");
  const std::int64_t served_since = number(since, "served_bytes");
  if (served_since == 0) {
    return {Level::kFault, "serving", "no block was served; fallbacks: " + reasons(statistics),
            "run more iterations after the learning ones; a fallback `limit` asks for a greater "
            "MEMOMALLOC_SLAB_LIMIT"};
  }
  const std::int64_t large = number(statistics, "large_bytes");
  const std::string share =
      "of all large bytes " + percent(number(statistics, "planned_bytes"), large) +
      " planned in a slab, " + percent(number(statistics, "at_hand_bytes"), large) +
      " at hand in the pool, " + percent(number(statistics, "other_bytes"), large) +
      " neither; either one: " + percent(served_since, large_since) + " since serving began";
  if (served_since * 2 < large_since) {
    return {Level::kNote, "serving",
            "less than half: " + share + "; fallbacks: " + reasons(statistics),
            "`size` and `order` mean changing shapes: `memomalloc report` shows them"};
  }
  return {Level::kGood, "serving", share, ""};
}

void add_hidden(const std::set<std::string>& mapped, std::vector<Finding>& findings) {
  std::set<std::string_view> told;  // one finding, however many files a hider has
  for (const std::string& path : mapped) {
    const std::string name = std::filesystem::path(path).filename();
    for (const Hider& hider : kHiders) {
      if (name.find(hider.file) != std::string::npos && told.insert(hider.file).second) {
        findings.push_back({Level::kNote, "hidden", name + ": " + hider.what, hider.advice});
      }
    }
    // On AArch64 torch's own libraries hold a mimalloc; look for it by its functions.
    if (name.starts_with("libc10") || name.starts_with("libtorch_cpu")) {
      const std::optional<ElfFile> elf = read_elf(path);
      if (elf && elf->allocators.contains("mi_malloc")) {
        findings.push_back({Level::kNote, "hidden",
                            name + " holds an allocator of its own, mimalloc",
                            "tensors are not seen; use a build of torch with USE_MIMALLOC=0"});
      }
    }
  }
}

}  // namespace

std::vector<Finding> examine_run(const std::vector<json>& statistics,
                                 const std::set<std::string>& mapped) {
  std::vector<Finding> findings;
  add_hidden(mapped, findings);
  const auto main = std::max_element(
      statistics.begin(), statistics.end(), [](const json& left, const json& right) {
        return number(left, "large_bytes") < number(right, "large_bytes");
      });
  const bool was_mapped = std::any_of(mapped.begin(), mapped.end(), [](const std::string& path) {
    return path.find("libmemomalloc.so") != std::string::npos;
  });
  const std::int64_t allocations =
      main == statistics.end() ? 0 : number(*main, "large_allocations");
  if (allocations == 0) {
    findings.push_back(
        {Level::kFault, "seen",
         was_mapped
             ? "it was loaded, but saw few large allocations or none; the first 16 are passed on"
             : "no process of the command reported large allocations",
         "is the network run in this process? MEMOMALLOC_THRESHOLD=4K sees smaller blocks, "
         "MEMOMALLOC_VERBOSE=1 tells where it is loaded"});
    return findings;
  }
  findings.push_back({Level::kGood, "seen",
                      std::to_string(allocations) + " large allocations, " +
                          mebibytes(number(*main, "large_bytes")) + ", in process " +
                          std::to_string(number(*main, "pid")),
                      ""});
  findings.push_back(examine_learning(*main, allocations));
  if (findings.back().level != Level::kFault) {
    findings.push_back(examine_serving(*main));
  }
  return findings;
}

}  // namespace memo::cli
