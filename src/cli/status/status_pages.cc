#include "src/cli/status/status_pages.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>

#include "src/base/os.h"

namespace memo::cli {
namespace {

using nlohmann::json;

constexpr int kLooks = 20;  // at a page that is just being written: once a second, in microseconds

struct Folder {
  std::string path;
  uid_t owner = 0;
};

// Where a user's pages may lie, whatever this process' environment says.
void add_folders(const std::string& runtime, uid_t owner, std::map<std::string, uid_t>& folders) {
  char path[4096];
  if (status_folder(runtime, owner, path, sizeof path)) {
    folders[path] = owner;
  }
}

// The owners of what lies in a folder.
std::set<uid_t> owners_in(const char* folder) {
  std::set<uid_t> owners;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    struct stat status{};
    if (lstat(entry.path().c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      owners.insert(status.st_uid);
    }
  }
  return owners;
}

std::vector<Folder> folders_of(std::optional<pid_t> pid) {
  const uid_t me = geteuid();
  std::set<uid_t> owners = {me};
  struct stat status{};
  if (me == 0 && pid && stat(("/proc/" + std::to_string(*pid)).c_str(), &status) == 0) {
    owners.insert(status.st_uid);
  } else if (me == 0 && !pid) {
    owners.merge(owners_in("/run/user"));
    owners.merge(owners_in("/tmp"));
  }
  std::map<std::string, uid_t> found;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  add_folders(runtime != nullptr ? runtime : "", me, found);
  for (const uid_t owner : owners) {
    add_folders("/run/user/" + std::to_string(owner), owner, found);
    add_folders("", owner, found);
  }
  std::vector<Folder> folders;
  for (const auto& [path, owner] : found) {
    folders.push_back({path, owner});
  }
  return folders;
}

// A whole copy of the page, or what is wrong with it.
std::string_view copy_page(int file, StatusPage& page) {
  std::string_view problem;
  for (int i = 0; i < kLooks; ++i) {
    if (pread(file, &page, sizeof page, 0) != static_cast<ssize_t>(sizeof page)) {
      return "it cannot be read";
    }
    problem = check_page(page);
    if (problem.empty()) {
      break;
    }
    os::rest();
  }
  return problem;
}

// True where this process can see that the one of this name has ended.
bool has_ended(const StatusName& name) {
  return name.space == number_space() && name.space != 0 &&
         start_of(static_cast<pid_t>(name.pid)) != name.start;
}

std::optional<ProcessPage> read_page(int folder, const Folder& where, const std::string& name,
                                     std::vector<std::string>& problems) {
  StatusName parsed;
  if (!parse_name(name, parsed)) {
    return std::nullopt;
  }
  const bool has_gone = has_ended(parsed);
  StatusPage copy;
  std::string_view problem = "it is not a file of its user's that only he may read";
  if (const int file = open_page(folder, name.c_str(), where.owner, false); file >= 0) {
    problem = copy_page(file, copy);
    close(file);
  } else if (errno == ENOENT) {
    return std::nullopt;
  }
  const StatusBody& body = copy.body;
  if (problem.empty() &&
      (body.pid != parsed.pid || body.start != parsed.start || body.space != parsed.space)) {
    problem = "it is another process'";
  }
  if (has_gone) {
    unlinkat(folder, name.c_str(), 0);
  }
  if (!problem.empty()) {
    if (!has_gone) {
      problems.push_back(where.path + "/" + name + ": " + std::string(problem));
    }
    return std::nullopt;
  }
  const auto age =
      static_cast<double>(os::nanoseconds().count()) - static_cast<double>(body.written_at);
  return ProcessPage{body, where.path, where.owner, name, has_gone, std::max(age * 1e-9, 0.0)};
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  DIR* entries = fdopendir(dup(folder));
  while (entries != nullptr) {
    const dirent* entry = readdir(entries);
    if (entry == nullptr) {
      break;
    }
    names.emplace_back(entry->d_name);
  }
  if (entries != nullptr) {
    closedir(entries);
  }
  return names;
}

// The last value of "Rss:   123 kB", in bytes.
std::int64_t kibibytes(const std::string& line) {
  return std::atoll(line.c_str() + line.find(':') + 1) * 1024;
}

bool is_inside(const StatusRange& range, std::uint64_t address) {
  return address >= range.start && address - range.start < range.bytes;
}

std::string text(const char* field) {
  return field;
}

json lanes_of(const StatusBody& body) {
  json lanes = json::array();
  for (std::uint64_t i = 0; i < body.lane_rows; ++i) {
    const StatusLane& lane = body.lanes[i];
    json row = {{"lane", i}, {"phase", text(lane.phase)}};
#define LANE(name, help) row[#name] = lane.name;
#include "src/io/status_page_numbers.def"
    lanes.push_back(std::move(row));
  }
  return lanes;
}

json shares_of(const StatusShares& shares) {
  json all = {{"seconds", static_cast<double>(shares.nanoseconds) * 1e-9}};
#define SHARES(name, help) all[#name] = shares.name;
#include "src/io/status_page_numbers.def"
  return all;
}

json plans_of(const StatusBody& body) {
  json plans = json::array();
  for (std::uint64_t i = 0; i < body.plan_rows; ++i) {
    const StatusPlan& plan = body.plans[i];
    json row = {{"plan", i + 1}};
#define PLAN(name, help) row[#name] = plan.name;
#include "src/io/status_page_numbers.def"
    plans.push_back(std::move(row));
  }
  return plans;
}

json devices_of(const StatusBody& body) {
  json devices = json::array();
  for (std::uint64_t i = 0; i < body.device_rows; ++i) {
    const StatusDevice& device = body.devices[i];
    json row = {{"device", device.number}, {"phase", text(device.phase)}};
#define DEVICE(name, type, help) row[#name] = device.name;
#include "src/io/status_page_numbers.def"
    devices.push_back(std::move(row));
  }
  return devices;
}

void add_counters(const StatusBody& body, json& all) {
  std::size_t i = 0;
  json reasons = json::object();
  const auto add = [&](std::string_view name) {
    constexpr std::string_view kFallback = "fallback_";
    const std::uint64_t value = body.counters[i++];
    all[std::string(name)] = value;
    if (name.starts_with(kFallback) && !name.ends_with('s')) {  // of a single reason
      reasons[std::string(name.substr(kFallback.size()))] = value;
    }
  };
#define COUNTER(name, unit, help) add(#name);
#include "src/base/counters.def"
#undef COUNTER
  all["fallback"] = reasons;
}

}  // namespace

std::vector<ProcessPage> read_pages(std::optional<pid_t> pid, std::vector<std::string>& problems) {
  std::vector<ProcessPage> pages;
  for (const Folder& where : folders_of(pid)) {
    const int folder = open_status_folder(where.path.c_str(), where.owner, false);
    if (folder < 0) {
      if (errno == EACCES) {
        problems.push_back(where.path + ": it is not its user's alone, and is not read");
      }
      continue;
    }
    for (const std::string& name : names_in(folder)) {
      if (pid && !name.starts_with(std::to_string(*pid) + "-")) {
        continue;
      }
      if (auto page = read_page(folder, where, name, problems)) {
        pages.push_back(std::move(*page));
      }
    }
    close(folder);
  }
  std::sort(pages.begin(), pages.end(), [](const ProcessPage& a, const ProcessPage& b) {
    const auto place = [](const StatusBody& body) {
      return std::tuple(body.pid, body.start, body.space, body.device_rows);
    };
    return place(a.body) < place(b.body);
  });
  return pages;
}

std::vector<ProcessPage> merged(std::vector<ProcessPage> pages) {
  std::vector<ProcessPage> processes;
  for (ProcessPage& page : pages) {
    const StatusBody& body = page.body;
    StatusBody* const own = processes.empty() ? nullptr : &processes.back().body;
    if (own != nullptr && own->pid == body.pid && own->start == body.start &&
        own->space == body.space && own->device_rows == 0) {
      own->device_rows = body.device_rows;
      std::copy_n(body.devices, kDeviceRows, own->devices);
    } else {
      processes.push_back(std::move(page));
    }
  }
  return processes;
}

bool is_numbered_here(const ProcessPage& page) {
  return page.body.space == number_space();
}

std::optional<Residency> residency_of(const ProcessPage& page) {
  if (!is_numbered_here(page)) {
    return std::nullopt;
  }
  std::ifstream smaps("/proc/" + std::to_string(page.body.pid) + "/smaps");
  Residency sum;
  bool ours = false;
  bool slabs = false;
  bool any = false;
  for (std::string line; std::getline(smaps, line); any = true) {
    unsigned long long first = 0;
    unsigned long long last = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &last) == 2) {
      slabs = is_inside(page.body.slabs, first);
      ours = slabs || is_inside(page.body.pool, first);
    } else if (ours && line.starts_with("Rss:")) {
      sum.bytes += kibibytes(line);
      sum.slab_bytes += slabs ? kibibytes(line) : 0;
    } else if (ours && line.starts_with("AnonHugePages:")) {
      sum.huge_page_bytes += kibibytes(line);
      sum.slab_huge_page_bytes += slabs ? kibibytes(line) : 0;
    }
  }
  return any && !page.ended ? std::optional(sum) : std::nullopt;
}

json as_json(const ProcessPage& page, const std::optional<Residency>& residency) {
  const StatusBody& body = page.body;
  json all = {
      {"version", text(body.version)},
      {"pid", body.pid},
      {"parent_pid", body.parent_pid},
      {"process", text(body.process)},
      {"phase", text(body.phase)},
      {"ended", page.ended},
      {"age_seconds", page.age_seconds},
      {"seconds", static_cast<double>(body.written_at - body.opened_at) * 1e-9},
      {"peak_bytes", body.peak_bytes},
      {"slab_bytes", body.slab_bytes},
      {"lower_bound_bytes", body.lower_bound_bytes},
      {"plan_seconds", body.plan_seconds},
      {"threads", body.threads},
      {"since_serving",
       {{"large_bytes", body.since_large_bytes},
        {"planned_bytes", body.since_planned_bytes},
        {"at_hand_bytes", body.since_at_hand_bytes}}},
      {"now", shares_of(body.now)},
      {"pool", {{"used_bytes", body.pool_used_bytes}, {"free_bytes", body.pool_free_bytes}}},
      {"lanes", lanes_of(body)},
      {"stored_plans", plans_of(body)},
      {"devices", devices_of(body)}};
  add_counters(body, all);
  all["page_faults_avoided"] =
      (all["planned_bytes"].get<std::uint64_t>() + all["at_hand_bytes"].get<std::uint64_t>()) /
      4096;
  if (body.observes != 0) {
    all["observed"] = {{"page_faults", body.observed_faults}, {"peak_bytes", body.held_peak_bytes}};
  }
  if (residency) {
    all["resident_bytes"] = residency->bytes;
    all["huge_page_bytes"] = residency->huge_page_bytes;
    all["slab_resident_bytes"] = residency->slab_bytes;
    all["slab_huge_page_bytes"] = residency->slab_huge_page_bytes;
  }
  return all;
}

}  // namespace memo::cli
