// Starts commands with a changed environment, and measures them with wait4. Cold.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace memo::cli {

// Variables to set; an empty optional unsets.
using Environment = std::map<std::string, std::optional<std::string>>;

struct CommandLine {
  std::vector<std::string> words;  // words[0] is looked up in PATH
  Environment environment;         // changes to the environment of this process
  int output = -1;                 // file descriptor for stdout, -1: this process' own
  int errors = -1;                 // the same for stderr
};

// What wait4 told about a finished command and the children that it waited for.
struct Usage {
  int exit_code = 0;  // 128 + signal where a signal ended it
  int signal = 0;     // that signal
  double wall_seconds = 0;
  double user_seconds = 0;
  double system_seconds = 0;
  std::int64_t minor_faults = 0;
  std::int64_t major_faults = 0;
  std::int64_t peak_rss_bytes = 0;  // of the largest process
};

// Applies the changes to this process' own environment; returns those that undo them.
Environment apply(const Environment& environment);

// Starts the command. Returns -1 with errno set if it could not be executed.
pid_t start(const CommandLine& command);

// Waits for a child that started at `started_seconds` on monotonic_seconds().
Usage wait_for(pid_t child, double started_seconds);

// While one lives, signals that are sent to this process alone reach the child, and those of a
// terminal, which reach the child without it, do nothing here. Once the child has ended they end
// the wait for what it leaves behind. What is ignored stays ignored. Of one child at a time.
class SignalsPassedOn {
 public:
  SignalsPassedOn();
  ~SignalsPassedOn();
  // From now on to this child, with what came before.
  static void to(pid_t child);
  // The latest that came and would have ended this process; 0: none.
  static int caught();
  SignalsPassedOn(const SignalsPassedOn&) = delete;
  SignalsPassedOn& operator=(const SignalsPassedOn&) = delete;

 private:
  static constexpr int kNumbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
  struct sigaction before_[std::size(kNumbers)];
};

// From now on what the command leaves behind when it ends is this process' to wait for: workers of
// a server that was killed.
void adopt_orphans();

// As wait_for, with all that comes after it: the processes that the command leaves behind, as long
// as they end within some seconds. Their times and faults are added, and the peak is the greatest
// one. Requires adopt_orphans() before the start.
Usage wait_for_all(pid_t child, double started_seconds);

// Ends what is then left all the same, so that it takes nothing from what comes next, and adds it.
// False if something cannot be ended.
bool end_left_behind(Usage& usage);

// Ends this process by the signal, without a core file.
void end_by(int signal);

// start and wait_for; none if the command could not be executed (errno tells why).
std::optional<Usage> run_to_end(const CommandLine& command);

double monotonic_seconds();

// Finds words[0] as execvp would; empty if there is none.
std::string find_in_path(const std::string& word);

// As a shell takes it for one word.
std::string shell_word(const std::string& word);

// Why `word` could not be executed, given execvp's errno, and what to do about it.
std::string describe_refusal(const std::string& word, int error);

// "exit code 3", or "signal 11 (Segmentation fault)" for a code of 128 + 11.
std::string describe_exit(int exit_code);

}  // namespace memo::cli
