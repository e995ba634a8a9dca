// Reads /proc/PID. Cold.
#include "src/cli/run/mapped_files.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

namespace memo::cli {
namespace {

namespace fs = std::filesystem;

// The sum of these rows of a file with a number of kibibytes in each; 0 without them.
std::int64_t sum_of_rows(const fs::path& path, std::string_view one, std::string_view other) {
  std::int64_t kibibytes = 0;
  std::ifstream file(path);
  for (std::string name; file >> name; std::getline(file, name)) {
    if (name == one || name == other) {
      std::int64_t part = 0;
      file >> part;
      kibibytes += part;
    }
  }
  return kibibytes * 1024;
}

// A page that several processes share counts once in their sum, where the kernel knows.
std::int64_t memory_of(const fs::path& folder) {
  const std::int64_t shared = sum_of_rows(folder / "smaps_rollup", "Pss_Anon:", "Pss_Shmem:");
  return shared > 0 ? shared : sum_of_rows(folder / "status", "RssAnon:", "RssShmem:");
}

std::string preload_of(const fs::path& folder) {
  constexpr std::string_view kName = "LD_PRELOAD=";
  std::ifstream environment(folder / "environ");
  for (std::string row; std::getline(environment, row, '\0');) {
    if (row.starts_with(kName)) {
      return row.substr(kName.size());
    }
  }
  return "";
}

}  // namespace

std::int64_t look_at(pid_t process, Watched& watched) {
  const fs::path folder = "/proc/" + std::to_string(process);
  std::error_code gone;
  std::int64_t all = memory_of(folder);
  WatchedProcess one;
  one.memory = all;
  one.executable = fs::read_symlink(folder / "exe", gone);
  one.preload = preload_of(folder);
  std::getline(std::ifstream(folder / "comm"), one.name);
  std::ifstream maps(folder / "maps");
  // One that ends in the meantime has no mappings: what was seen of it before stays.
  bool ended = true;
  for (std::string line; std::getline(maps, line); ended = false) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && line.find("r-xp") < path) {
      const std::string file = line.substr(path);
      watched.mapped.insert(file);
      if (fs::path(file).filename().string().starts_with("libmemomalloc.so")) {
        one.libraries.insert(file);
      }
    }
  }
  if (all > 0 && !ended) {
    WatchedProcess& known = watched.processes[process];
    one.peak = std::max(all, known.peak);
    known = std::move(one);
  }
  for (const auto& task : fs::directory_iterator(folder / "task", gone)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      all += look_at(child, watched);
    }
  }
  return all;
}

Watched watch(pid_t child) {
  using std::chrono::milliseconds;
  Watched watched;
  constexpr int kSeldom = 20;  // a look takes at most one part in this of the time
  milliseconds pause{1};
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    const auto before = std::chrono::steady_clock::now();
    if (const std::int64_t held = look_at(child, watched); held > 0) {
      watched.held = held;
      watched.peak = std::max(watched.peak, held);
    }
    const auto took = std::chrono::steady_clock::now() - before;
    std::this_thread::sleep_for(
        std::max<std::chrono::steady_clock::duration>(pause, took * kSeldom));
    pause = std::min(pause * 2, milliseconds{200});
  }
  return watched;
}

}  // namespace memo::cli
