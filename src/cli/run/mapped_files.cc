// Reads /proc/PID/maps. Cold.
#include "src/cli/run/mapped_files.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace memo::cli {

void add_mapped_files(pid_t process, std::set<std::string>& files) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  std::ifstream maps(folder / "maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && line.find("r-xp") < path) {
      files.insert(line.substr(path));
    }
  }
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(folder / "task", gone)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      add_mapped_files(child, files);
    }
  }
}

std::set<std::string> watch_mapped_files(pid_t child) {
  using std::chrono::milliseconds;
  std::set<std::string> files;
  milliseconds pause{1};
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0) {
    add_mapped_files(child, files);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds{200});
  }
  return files;
}

}  // namespace memo::cli
