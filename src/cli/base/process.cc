// Processes: fork, exec, wait4. Cold.
#include "src/cli/base/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace memo::cli {
namespace {

constexpr double kPatience = 10;  // seconds for what a command leaves behind

volatile sig_atomic_t followed = 0;       // the child that gets signals, until it was waited for
volatile sig_atomic_t caught_signal = 0;  // the latest that ends a process
volatile sig_atomic_t caught_alone = 0;   // it came while there was no child

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

void add(Usage& usage, const rusage& used) {
  usage.user_seconds += seconds(used.ru_utime);
  usage.system_seconds += seconds(used.ru_stime);
  usage.minor_faults += used.ru_minflt;
  usage.major_faults += used.ru_majflt;
  usage.peak_rss_bytes = std::max(usage.peak_rss_bytes, used.ru_maxrss * std::int64_t{1024});
}

// The child's half: never returns. `report` closes by itself when exec succeeds.
[[noreturn]] void execute(const CommandLine& command, int report) {
  if (command.output >= 0) {
    dup2(command.output, STDOUT_FILENO);
  }
  if (command.errors >= 0) {
    dup2(command.errors, STDERR_FILENO);
  }
  apply(command.environment);
  std::vector<char*> words;
  for (const std::string& word : command.words) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(report, &error, sizeof error);
  _exit(127);
}

std::set<pid_t> own_children() {
  std::set<pid_t> found;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      found.insert(child);
    }
  }
  return found;
}

// Children that no command has left: of the shell, say, that has become this process.
std::set<pid_t>& children_of_before() {
  static std::set<pid_t> children;
  return children;
}

bool is_executable(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

}  // namespace

Environment apply(const Environment& environment) {
  Environment before;
  for (const auto& [name, value] : environment) {
    const char* set = std::getenv(name.c_str());
    before[name] = set != nullptr ? std::optional<std::string>(set) : std::nullopt;
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
  return before;
}

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

pid_t start(const CommandLine& command) {
  signal(SIGCHLD, SIG_DFL);  // while it is ignored, wait4() does not tell how a child ended
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    return -1;
  }
  const pid_t child = fork();
  if (child == 0) {
    execute(command, report[1]);
  }
  close(report[1]);
  int error = child < 0 ? errno : 0;
  if (child > 0 && read(report[0], &error, sizeof error) == sizeof error) {
    waitpid(child, nullptr, 0);
  }
  close(report[0]);
  errno = error;
  return error == 0 ? child : -1;
}

Usage wait_for(pid_t child, double started_seconds) {
  int status = 0;
  rusage used{};
  while (wait4(child, &status, 0, &used) < 0 && errno == EINTR) {
  }
  if (followed == child) {
    followed = 0;
  }
  Usage usage;
  usage.wall_seconds = monotonic_seconds() - started_seconds;
  usage.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  usage.exit_code = usage.signal != 0 ? 128 + usage.signal : WEXITSTATUS(status);
  add(usage, used);
  return usage;
}

SignalsPassedOn::SignalsPassedOn() {
  followed = 0;
  caught_signal = 0;
  caught_alone = 0;
  struct sigaction pass_on{};
  pass_on.sa_flags = SA_SIGINFO | SA_RESTART;
  pass_on.sa_sigaction = [](int number, siginfo_t* info, void*) {
    const bool by_terminal = info->si_code > 0;
    if (number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM) {
      caught_signal = number;
      caught_alone = followed == 0 ? 1 : 0;
    }
    if (followed != 0 && !by_terminal) {
      kill(followed, number);
    }
  };
  for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
    sigaction(kNumbers[i], &pass_on, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) {
      sigaction(kNumbers[i], &before_[i], nullptr);
    }
  }
}

void SignalsPassedOn::to(pid_t child) {
  followed = child;
  if (caught_alone != 0) {
    caught_alone = 0;
    kill(child, caught_signal);
  }
}

int SignalsPassedOn::caught() {
  return caught_signal;
}

SignalsPassedOn::~SignalsPassedOn() {
  for (std::size_t i = 0; i < std::size(kNumbers); ++i) {
    sigaction(kNumbers[i], &before_[i], nullptr);
  }
}

void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  children_of_before() = own_children();
}

// A server's workers look every second or so whether their parent is there.
Usage wait_for_all(pid_t child, double started_seconds) {
  Usage usage = wait_for(child, started_seconds);
  const double end = monotonic_seconds() + kPatience;
  while (monotonic_seconds() < end && caught_alone == 0) {
    rusage used{};
    const pid_t ended = wait4(-1, nullptr, WNOHANG, &used);
    if (ended > 0) {
      add(usage, used);
    } else if (ended == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } else if (errno != EINTR) {
      break;
    }
  }
  return usage;
}

bool end_left_behind(Usage& usage) {
  const std::set<pid_t>& before = children_of_before();
  for (const double end = monotonic_seconds() + kPatience; monotonic_seconds() < end;) {
    std::set<pid_t> left = own_children();
    std::erase_if(left, [&](pid_t child) { return before.contains(child); });
    if (left.empty()) {
      return true;
    }
    for (const pid_t child : left) {
      rusage used{};
      kill(child, SIGKILL);
      if (wait4(child, nullptr, WNOHANG, &used) == child) {
        add(usage, used);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void end_by(int signal) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

std::optional<Usage> run_to_end(const CommandLine& command) {
  const double started = monotonic_seconds();
  const pid_t child = start(command);
  if (child < 0) {
    return std::nullopt;
  }
  return wait_for(child, started);
}

std::string find_in_path(const std::string& word) {
  if (word.find('/') != std::string::npos) {
    return is_executable(word) ? word : "";
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + word;
    if (is_executable(candidate)) {
      return candidate;
    }
  }
  return "";
}

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char c : word) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

std::string describe_refusal(const std::string& word, int error) {
  struct stat status{};
  const bool is_path = word.find('/') != std::string::npos;
  const bool exists = is_path && stat(word.c_str(), &status) == 0;
  const std::string quoted = "'" + word + "'";
  if (exists && S_ISDIR(status.st_mode)) {
    return quoted + " is a folder; name a program in it";
  }
  if (exists && access(word.c_str(), X_OK) != 0) {
    return quoted + " is not executable; `chmod +x` makes it so, or put its interpreter before it";
  }
  if (exists && error == ENOENT) {
    return quoted +
           " names an interpreter or loader that is not there; `file` tells which, or see its "
           "first line";
  }
  if (error == ENOENT) {
    return "there is no program " + quoted +
           (is_path ? "; check the path" : " in PATH; check its name, or give its path");
  }
  return "cannot run " + quoted + ": " + std::strerror(error) +
         "; try it without `memomalloc` first";
}

std::string describe_exit(int exit_code) {
  const int number = exit_code - 128;
  // sigdescr_np would need glibc 2.32. SIGSYS is the last signal that has a name.
  const char* name = number > 0 && number <= SIGSYS ? strsignal(number) : nullptr;
  return name != nullptr ? "signal " + std::to_string(number) + " (" + name + ")"
                         : "exit code " + std::to_string(exit_code);
}

}  // namespace memo::cli
