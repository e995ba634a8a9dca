// What a test needs of the process around it: stderr caught, children judged by how they end,
// folders of their own, threads whose failures reach the test. For tests only.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace memo::testing {

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A figure of such a file in KiB, as bytes; 0 where it has none.
inline std::uint64_t bytes_in(const std::string& path, const std::string& name) {
  std::istringstream lines(read_file(path));
  std::uint64_t kib = 0;
  for (std::string word; lines >> word && word != name;) {
  }
  lines >> kib;
  return kib << 10;
}
// Bytes of the process that are so, as /proc/self/smaps_rollup names it.
inline std::uint64_t bytes_that_are(const std::string& name) {
  return bytes_in("/proc/self/smaps_rollup", name);
}
// Bytes that the process may write, used or not: what RLIMIT_DATA and strict overcommit count.
inline std::uint64_t writable_bytes() {
  return bytes_in("/proc/self/status", "VmData:");
}
inline std::uint64_t in_huge_pages() {
  return bytes_that_are("AnonHugePages:");
}
// The system may take them when it needs some (MADV_FREE).
inline std::uint64_t lazily_freed() {
  return bytes_that_are("LazyFree:");
}

// An empty folder, removed at the end with all that is in it.
class TempFolder {
 public:
  TempFolder() {
    path_ = (std::filesystem::temp_directory_path() / "memomalloc-test-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) {
      std::abort();
    }
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::size_t entries() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  std::string path_;
};

// What `function` writes to file descriptor 2.
template <typename Function>
std::string stderr_of(Function&& function) {
  const TempFolder folder;
  const std::string path = folder.file("stderr");
  const int saved = dup(STDERR_FILENO);
  const int caught = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  dup2(caught, STDERR_FILENO);
  close(caught);
  function();
  dup2(saved, STDERR_FILENO);
  close(saved);
  return read_file(path);
}

// Runs `function` in a forked child, which ends with the code that it answers; the child's wait
// status.
template <typename Function>
int status_of_child(Function&& function) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(function());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// The code with which such a child ends; 200 where a signal has ended it, which is no answer.
template <typename Function>
int answer_of_child(Function&& function) {
  const int status = status_of_child(function);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
}
// What a child answers that lacks what the test needs; its parent says so by skip().
constexpr int kCannotRun = 77;

// Runs `function` on a thread of its own, with thread-local state of its own, to its end. Failed
// requirements come back as exceptions of the caller.
template <typename Function>
void in_thread(Function&& function) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      function();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

// Seeds for a random test: always the same few, and one that no run has had before.
inline std::vector<std::uint64_t> seeds(std::uint64_t count) {
  std::vector<std::uint64_t> result;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    result.push_back(seed);
  }
  result.push_back(std::random_device()());
  return result;
}

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t limit) {
  return random() % limit;
}

}  // namespace memo::testing
