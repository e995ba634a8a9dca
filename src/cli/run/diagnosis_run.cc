// The checks after the command ran. Cold.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>

#include "src/cli/base/loop_words.h"
#include "src/cli/run/diagnosis.h"
#include "src/cli/run/hiders.h"
#include "src/cli/run/loader.h"

namespace memo::cli {
namespace {

using nlohmann::json;

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

Loop loop_in(const json& statistics) {
  const json loop = statistics.value("loop", json::object());
  return {.length = static_cast<std::uint32_t>(number_in(loop, "calls")),
          .run = static_cast<std::uint32_t>(number_in(loop, "run"))};
}

// What the process' statistics say of its loop or plan: evidence, verdict, and what is needed next.
std::string standing_in(const json& statistics) {
  const json loop = statistics.value("loop", json::object());
  return loop_words(loop.value("evidence", ""), loop.value("verdict", ""), loop.value("next", ""),
                    loop_in(statistics));
}

Finding examine_learning(const json& statistics, std::int64_t allocations) {
  const std::int64_t plans = number_in(statistics, "plans");
  const std::int64_t loaded = number_in(statistics, "plans_loaded");
  if (plans + loaded > 0) {
    const std::int64_t calls = number_in(statistics, "symbolic_calls");
    const std::string from_file =
        loaded > 0 ? ", " + std::to_string(loaded) + " of them from the plan cache" : "";
    const std::string shapes =
        calls > 0 ? "; changing shapes: " + std::to_string(calls) + " calls, planned for " +
                        std::to_string(number_in(statistics, "shapes")) + " shapes"
                  : "";
    return {Level::kGood, "learning",
            "plans: " + std::to_string(plans + loaded) + from_file + "; slab " +
                mebibytes(number_in(statistics, "slab_bytes")) + ", least possible " +
                mebibytes(number_in(statistics, "lower_bound_bytes")) + shapes + "; " +
                standing_in(statistics),
            ""};
  }
  const Loop loop = loop_in(statistics);
  if (loop.repeats() && number_in(statistics, "at_hand_bytes") > 0) {
    return {Level::kNote, "learning", standing_in(statistics) + "; until then the pool serves it",
            "nothing to do: the pool causes no page faults either, and a plan saves little more"};
  }
  if (loop.repeats()) {
    return {Level::kNote, "learning", standing_in(statistics), "run more iterations"};
  }
  const json words = statistics.value("loop", json::object());
  const std::string none =
      words.value("evidence", "") + " in " + std::to_string(allocations) + " large allocations";
  if (number_in(statistics, "at_hand_bytes") > 0) {
    return {Level::kNote, "learning", none + "; the pool serves them",
            "nothing to do if the threads allocate in no fixed order; a loop of few calls needs "
            "more iterations"};
  }
  return {Level::kNote, "learning", none,
          words.value("next", "") +
              "; to see what repeats: `memomalloc run --trace-file trace.csv -- COMMAND`, then "
              "`memomalloc analyze trace.csv`"};
}

Finding examine_serving(const json& statistics) {
  const std::int64_t large = number_in(statistics, "large_bytes");
  const std::int64_t planned = number_in(statistics, "planned_bytes");
  const std::int64_t at_hand = number_in(statistics, "at_hand_bytes");
  const std::string share = percent(planned + at_hand, large) + " of all large bytes (" +
                            percent(planned, large) + " from the plan's slab, " +
                            percent(at_hand, large) + " from the pool)";
  if ((planned + at_hand) * 2 < large) {
    return {Level::kNote, "serving", "little: " + share + "; fallbacks: " + reasons(statistics),
            "`size` and `order` mean changing shapes: `memomalloc report` shows them; a fallback "
            "`limit` asks for a greater MEMOMALLOC_SLAB_LIMIT"};
  }
  return {Level::kGood, "serving", share, ""};
}

// What the start hook has told of an opening, without the process' number; one line for each.
std::set<std::string> notes_of(const std::vector<std::string>& all, const std::string& name) {
  std::set<std::string> found;
  for (const std::string& note : all) {
    const std::size_t space = note.find(' ');
    if (space != std::string::npos && note.compare(space + 1, name.size() + 2, name + ": ") == 0) {
      found.insert(note.substr(space + name.size() + 3));
    }
  }
  return found;
}

// The program has asked for what the hook would have left out.
bool is_asked_for(const std::string& note) {
  return note.find("asks for") != std::string::npos;
}

void add_hidden(const Run& run, std::vector<Finding>& findings) {
  for (const std::string& note : std::set<std::string>(run.notes.begin(), run.notes.end())) {
    const std::string what = note.substr(note.find(' ') + 1);
    const bool told = std::any_of(findings.begin(), findings.end(),
                                  [&](const Finding& finding) { return finding.what == what; });
    if (!told && !is_asked_for(what)) {
      findings.push_back({Level::kGood, "opened", what, ""});
    }
  }
  for (const Hiding& hiding : run.hidden) {
    findings.push_back({Level::kNote, "hidden", hiding.what, hiding.hider->advice});
  }
}

// Entries that stand before the library, and give blocks in its place.
std::string allocator_in_front(const std::string& preload) {
  for (const std::string& entry : preload_entries(preload)) {
    if (std::filesystem::path(entry).filename().string().starts_with("libmemomalloc")) {
      return "";
    }
    if (gives_malloc(entry)) {
      return entry;
    }
  }
  return "";
}

std::string why_unserved(const WatchedProcess& process) {
  if (process.libraries.empty()) {
    const std::string why = obstacle(process.executable);
    return !why.empty() ? why
           : process.preload.find("libmemomalloc") == std::string::npos
               ? "it was started without the library in LD_PRELOAD"
               : "the loader refused the library";
  }
  const std::string front = allocator_in_front(process.preload);
  if (!front.empty()) {
    return front + " stands before the library in LD_PRELOAD, and gives the blocks in its place";
  }
  return process.libraries.size() > 1 ? "the library is loaded twice" : "";
}

void add_deep_bound(const std::vector<ProcessRow>& rows, std::vector<Finding>& findings) {
  std::int64_t objects = 0;
  for (const ProcessRow& row : rows) {
    objects += number_in(row.statistics, "deep_bound");
  }
  if (objects > 0) {
    findings.push_back(
        {Level::kNote, "hidden",
         std::to_string(objects) +
             " objects are loaded with RTLD_DEEPBIND: their malloc and free are the C "
             "library's, and the program ends where they free a block that was served",
         "load them without that flag; or MEMOMALLOC_DISABLE=1 for this program"});
  }
}

// The process by which the command is judged: of those that do the work the busiest that is served;
// if those that are not have most of the bytes, the busiest of them.
const ProcessRow& judged_by(const std::vector<ProcessRow>& rows) {
  const ProcessRow* busiest[2] = {};
  std::int64_t bytes[2] = {};
  for (const ProcessRow& row : rows) {  // the busiest first
    if (row.works) {
      const std::size_t kind = row.served() ? 1 : 0;
      busiest[kind] = busiest[kind] == nullptr ? &row : busiest[kind];
      bytes[kind] += row.large;
    }
  }
  return *busiest[busiest[0] == nullptr || (busiest[1] != nullptr && bytes[1] >= bytes[0]) ? 1 : 0];
}

// Processes that work and are not served as the judged one is.
void add_unserved(const std::vector<ProcessRow>& rows, const ProcessRow& judged,
                  std::vector<Finding>& findings) {
  constexpr std::int64_t kMuch = 20;  // of the judged one's bytes, one part in
  for (const ProcessRow& row : rows) {
    if (row.works && judged.served() && !row.served() && row.large >= judged.large / kMuch) {
      findings.push_back({Level::kNote, "serving",
                          "process " + std::to_string(row.pid) + " is not served: it made " +
                              std::to_string(row.calls) + " large allocations",
                          "it may have had too few requests yet, or do another kind of work"});
    }
  }
}

// A line for each process that counts, and one for all others: a version manager's `python` is a
// shell script that starts twenty small programs.
void add_processes(const std::vector<ProcessRow>& rows, std::int64_t all,
                   std::vector<Finding>& findings) {
  constexpr std::int64_t kLittle = 100;  // of all large bytes, one part in
  std::int64_t left_out = 0;
  std::int64_t bytes = 0;
  for (const ProcessRow& row : rows) {
    if (row.served() || row.large >= all / kLittle) {
      findings.push_back({Level::kGood, "process", describe(row), ""});
    } else {
      ++left_out;
      bytes += row.large;
    }
  }
  if (left_out > 0) {
    findings.push_back({Level::kGood, "process",
                        std::to_string(left_out) + " more, with " + mebibytes(bytes) +
                            " together: too little to matter",
                        ""});
  }
}

}  // namespace

std::vector<Hiding> what_hides(const std::set<std::string>& mapped,
                               const std::vector<std::string>& all_notes) {
  std::vector<Hiding> found;
  std::set<std::string_view> told;  // one, however many files it has
  for (const std::string& path : mapped) {
    for (const Hider& hider : kHiders) {
      if (!is_from(hider, path) || is_open(hider) || !told.insert(hider.what).second) {
        continue;
      }
      const std::string name = std::filesystem::path(path).filename();
      const std::set<std::string> notes =
          hider.kind == Hider::kHook ? notes_of(all_notes, hider.name) : std::set<std::string>{};
      const auto asked = std::find_if(notes.begin(), notes.end(), is_asked_for);
      if (notes.empty()) {
        found.push_back({&hider, name + ": " + hider.what});
      } else if (asked != notes.end()) {
        found.push_back({&hider, name + ": " + *asked});
      }
    }
  }
  return found;
}

std::vector<Unserved> unserved(const Run& run) {
  constexpr std::int64_t kMuch = 16 << 20;  // less is a shell's, or a small program's
  std::vector<Unserved> found;
  for (const auto& [pid, process] : run.watched.processes) {
    const bool has_calls =
        std::any_of(run.rows.begin(), run.rows.end(),
                    [pid = pid](const ProcessRow& row) { return row.pid == pid; });
    if (process.peak >= kMuch && !has_calls) {
      if (std::string why = why_unserved(process); !why.empty()) {
        found.push_back({pid, &process, std::move(why)});
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.process->peak > b.process->peak; });
  return found;
}

std::vector<Finding> examine_run(const Run& run) {
  const std::vector<ProcessRow>& rows = run.rows;
  std::vector<Finding> findings;
  add_hidden(run, findings);
  add_deep_bound(rows, findings);
  for (const Unserved& one : unserved(run)) {
    findings.push_back(
        {Level::kNote, "loaded",
         "process " + std::to_string(one.pid) + " (" + one.process->name + "), with " +
             mebibytes(one.process->peak) + ", is not served: " + one.why,
         "have it started with LD_PRELOAD=" + find_own_library() + " first in its list"});
  }
  for (const auto& [pid, process] : run.watched.processes) {
    if (process.libraries.size() > 1) {
      findings.push_back({Level::kNote, "loaded",
                          "process " + std::to_string(pid) + " has the library twice: " +
                              *process.libraries.begin() + ", " + *process.libraries.rbegin(),
                          "leave one out; the first in LD_PRELOAD serves"});
    }
  }
  const ProcessRow sum = sum_of(rows);
  if (sum.calls == 0) {
    const bool was_mapped =
        std::any_of(run.watched.processes.begin(), run.watched.processes.end(),
                    [](const auto& one) { return !one.second.libraries.empty(); });
    if ((was_mapped || run.usage.signal != 0) && !run.told) {
      findings.push_back({Level::kNote, "seen",
                          (was_mapped ? "the library was loaded, and left no statistics: "
                                      : "the command left no statistics: ") +
                              std::string(kSilent),
                          ""});
      return findings;
    }
    findings.push_back(
        {Level::kNote, "seen",
         was_mapped ? "the library was loaded, but saw few large allocations or none"
                    : "no process of the command made large allocations",
         "does the network run in this command? MEMOMALLOC_THRESHOLD=16K also serves smaller "
         "blocks; MEMOMALLOC_VERBOSE=1 tells which processes have the library"});
    return findings;
  }
  findings.push_back({Level::kGood, "seen",
                      std::to_string(sum.calls) + " large allocations, " + mebibytes(sum.large) +
                          ", in " +
                          (rows.size() == 1 ? "process " + std::to_string(rows[0].pid)
                                            : std::to_string(rows.size()) + " processes"),
                      ""});
  if (rows.size() > 1) {
    add_processes(rows, sum.large, findings);
  }
  const ProcessRow& judged = judged_by(rows);
  const std::size_t first = findings.size();
  findings.push_back(examine_learning(judged.statistics, judged.calls));
  findings.push_back(examine_serving(judged.statistics));
  if (rows.size() > 1) {
    for (std::size_t i = first; i < findings.size(); ++i) {
      findings[i].what = "process " + std::to_string(judged.pid) + ": " + findings[i].what;
    }
    add_unserved(rows, judged, findings);
  }
  return findings;
}

}  // namespace memo::cli
