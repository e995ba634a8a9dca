#include "src/cli/status/status_text.h"

#include <cmath>
#include <cstdint>
#include <cstdio>

#include "src/cli/base/process_rows.h"
#include "src/cli/base/text_table.h"

namespace memo::cli {
namespace {

using nlohmann::json;

std::string duration(double seconds) {
  const auto whole = static_cast<long long>(seconds);
  char text[48];
  if (whole < 120) {
    std::snprintf(text, sizeof text, "%lld s", whole);
  } else if (whole < 7200) {
    std::snprintf(text, sizeof text, "%lld min", whole / 60);
  } else {
    std::snprintf(text, sizeof text, "%lld h %lld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

// "95 % planned, 4 % reused, 1 % other, of 12.0 MiB".
std::string shares(const json& sums) {
  const std::int64_t all = number_in(sums, "large_bytes");
  if (all == 0) {
    return "no large allocations";
  }
  return percent(number_in(sums, "planned_bytes"), all) + " planned, " +
         percent(number_in(sums, "at_hand_bytes"), all) + " reused, " +
         percent(number_in(sums, "other_bytes"), all) + " other, of " + mebibytes(all);
}

std::string huge_share(const json& process) {
  return process.contains("resident_bytes")
             ? percent(number_in(process, "huge_page_bytes"), number_in(process, "resident_bytes"))
             : "-";
}

// The same of slabs alone, as an addition; empty where no slab has memory.
std::string slabs_huge_share(const json& process) {
  const std::int64_t slabs = number_in(process, "slab_resident_bytes");
  return slabs != 0 ? "; of slabs " + percent(number_in(process, "slab_huge_page_bytes"), slabs)
                    : std::string();
}

// What makes the figures others than those of a process that is served now.
std::string remark(const json& process) {
  constexpr double kLate = 3;  // seconds: they come every one
  if (process.value("ended", false)) {
    return "ended";
  }
  const double age = process.value("age_seconds", 0.0);
  return age > kLate ? "as of " + duration(age) + " ago" : "";
}

std::vector<std::string> cells(const json& process) {
  const json now = process.value("now", json::object());
  const std::int64_t recent = number_in(now, "large_bytes");
  const std::int64_t all = number_in(process, "large_bytes");
  const std::int64_t served = number_in(now, "planned_bytes") + number_in(now, "at_hand_bytes");
  const json pool = process.value("pool", json::object());
  return {std::to_string(number_in(process, "pid")),
          text_in(process, "process"),
          text_in(process, "phase"),
          recent == 0 ? "-" : percent(served, recent),
          percent(number_in(process, "planned_bytes"), all),
          percent(number_in(process, "at_hand_bytes"), all),
          percent(number_in(process, "other_bytes"), all),
          mebibytes(all),
          mebibytes(number_in(process, "slab_bytes")),
          mebibytes(number_in(pool, "free_bytes")),
          huge_share(process),
          mebibytes(number_in(process, "peak_bytes")),
          remark(process)};
}

void add(json& sum, const json& more) {
  for (const auto& [name, value] : more.items()) {
    if (value.is_number_unsigned() || value.is_number_integer()) {
      sum[name] = number_in(sum, name.c_str()) + value.get<std::int64_t>();
    } else if (value.is_object()) {
      json& inner = sum[name];
      inner = inner.is_object() ? inner : json::object();
      add(inner, value);
    }
  }
}

std::string lanes_table(const json& process) {
  std::vector<std::vector<std::string>> table = {
      {"  thread", "phase", "slab", "for plan", "iterations", "planned", "reused", "large"}};
  const json lanes = process.value("lanes", json::array());
  for (const json& lane : lanes) {
    const std::int64_t thread = number_in(lane, "thread");
    const std::int64_t plan = number_in(lane, "plan");
    const std::int64_t all = number_in(lane, "large_bytes");
    table.push_back({"  " + (thread == 0 ? std::string("-") : std::to_string(thread)),
                     text_in(lane, "phase"), mebibytes(number_in(lane, "slab_bytes")),
                     plan == 0 ? "-" : std::to_string(plan),
                     std::to_string(number_in(lane, "iterations")),
                     percent(number_in(lane, "planned_bytes"), all),
                     percent(number_in(lane, "at_hand_bytes"), all), mebibytes(all)});
  }
  return text_table(table);
}

// The threads that a plan serves, by the system's numbers.
std::string threads_of(const json& process, std::int64_t plan) {
  std::string text;
  const json lanes = process.value("lanes", json::array());
  for (const json& lane : lanes) {
    if (number_in(lane, "plan") == plan) {
      text += (text.empty() ? "" : " ") + std::to_string(number_in(lane, "thread"));
    }
  }
  return text.empty() ? "-" : text;
}

std::string plans_table(const json& process) {
  const json plans = process.value("stored_plans", json::array());
  if (plans.empty()) {
    return "  no plan\n";
  }
  std::vector<std::vector<std::string>> table = {
      {"  plan", "calls an iteration", "slab needed", "bound", "threads"}};
  for (const json& plan : plans) {
    const std::int64_t number = number_in(plan, "plan");
    table.push_back({"  " + std::to_string(number), std::to_string(number_in(plan, "steps")),
                     mebibytes(number_in(plan, "height_bytes")),
                     mebibytes(number_in(plan, "lower_bound_bytes")), threads_of(process, number)});
  }
  return text_table(table);
}

// Empty where the process has no GPU of which the library knows.
std::string devices_table(const json& process) {
  const json devices = process.value("devices", json::array());
  if (devices.empty()) {
    return "";
  }
  std::vector<std::vector<std::string>> table = {{"  GPU", "phase", "reserved", "peak", "alive",
                                                  "peak", "planned", "reused", "other", "plan"}};
  for (const json& device : devices) {
    const auto amount = [&](const char* name) { return mebibytes(number_in(device, name)); };
    const std::int64_t all = number_in(device, "planned_bytes") +
                             number_in(device, "reused_bytes") + number_in(device, "other_bytes");
    const auto share = [&](const char* name) { return percent(number_in(device, name), all); };
    table.push_back({"  " + std::to_string(number_in(device, "device")), text_in(device, "phase"),
                     amount("reserved_bytes"), amount("peak_reserved_bytes"), amount("alive_bytes"),
                     amount("peak_alive_bytes"), share("planned_bytes"), share("reused_bytes"),
                     share("other_bytes"), amount("plan_bytes")});
  }
  return "GPUs\n" + text_table(table);
}

std::string misses(const json& process) {
  std::string text;
  const json reasons = process.value("fallback", json::object());
  for (const auto& [reason, calls] : reasons.items()) {
    if (calls.is_number() && calls.get<std::uint64_t>() != 0) {
      text += (text.empty() ? "" : ", ") + reason + " " + calls.dump();
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string status_table(const std::vector<json>& processes) {
  std::vector<std::vector<std::string>> table = {{"process", "name", "phase", "served now",
                                                  "planned", "reused", "other", "large", "slab",
                                                  "pool free", "huge pages", "peak", ""}};
  json sum = json::object();
  for (const json& process : processes) {
    table.push_back(cells(process));
    if (!process.value("ended", false)) {
      add(sum, process);
    }
  }
  if (processes.size() > 1) {
    std::vector<std::string> last = cells(sum);
    last[0] = "sum";
    last[11] = "-";  // forked processes share some of theirs
    table.push_back(last);
  }
  return text_table(table);
}

std::string status_details(const json& process) {
  const json pool = process.value("pool", json::object());
  const json now = process.value("now", json::object());
  const std::string late = remark(process);
  std::string text = text_in(process, "process") + ", process " +
                     std::to_string(number_in(process, "pid")) + ": " + text_in(process, "phase") +
                     ", for " + duration(process.value("seconds", 0.0)) +
                     (process.contains("observed") ? ", only observed" : "") +
                     (late.empty() ? "" : ", " + late) + "\n";
  const std::string devices = devices_table(process);
  if (!devices.empty() && process.value("lanes", json::array()).empty()) {
    return text + devices;  // libmemomalloc.so is not there, or has nothing to do
  }
  text += "now         " + shares(now) + " in " + duration(now.value("seconds", 0.0)) + "\n";
  text += "since start " + shares(process) + "\n";
  text += "page faults " + std::to_string(number_in(process, "page_faults_avoided")) +
          " avoided at most\n";
  if (process.contains("observed")) {
    const json& observed = process.at("observed");
    text += "observed    slabs of " + mebibytes(number_in(process, "slab_bytes")) +
            " would have spared " + std::to_string(number_in(observed, "page_faults")) +
            " page faults\nheld        " + mebibytes(number_in(observed, "peak_bytes")) +
            " by the program at once, in large blocks\n";
  }
  text += "misses      " + misses(process) + "\n";
  text += "pool        " + mebibytes(number_in(pool, "used_bytes")) + " in use, " +
          mebibytes(number_in(pool, "free_bytes")) + " free\n";
  if (process.contains("resident_bytes")) {
    text += "memory      " + mebibytes(number_in(process, "resident_bytes")) +
            " in slabs and pool, " + huge_share(process) + " of it in huge pages" +
            slabs_huge_share(process) + "\n";
  }
  text += "peak        " + mebibytes(number_in(process, "peak_bytes")) + " of the whole process\n";
  return text + "threads and their slabs\n" + lanes_table(process) + "plans\n" +
         plans_table(process) + devices;
}

}  // namespace memo::cli
