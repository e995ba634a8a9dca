#include "preload/background_task.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <string_view>

#include "preload/process.h"
#include "src/base/check.h"
#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/own_thread.h"
#include "src/base/proc_file.h"

namespace memo {
namespace {

pid_t kernel_thread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

bool lives(pid_t number) {
  return number != 0 && syscall(SYS_tgkill, getpid(), number, 0) == 0;
}

void forget_dead() {
  for (std::atomic<pid_t>& one : g_process.own_threads.numbers) {
    pid_t number = one;
    if (number != 0 && !lives(number)) {
      one.compare_exchange_strong(number, 0);
    }
  }
}

bool is_own(pid_t number) {
  return std::any_of(std::begin(g_process.own_threads.numbers),
                     std::end(g_process.own_threads.numbers),
                     [number](const std::atomic<pid_t>& one) { return one == number; });
}

void wake_own_threads() {
  g_process.own_threads.news.fetch_add(1);
  syscall(SYS_futex, &g_process.own_threads.news, FUTEX_WAKE_PRIVATE, INT_MAX);
}

// The state letter of the process' first thread, "Z" once it has ended and others go on; 0: not
// told.
char state_of_first() {
  os::LinesOf<96> file("/proc/self/stat");  // the name, at most 16 bytes, is in parentheses
  std::string_view line;
  const std::size_t end = file.next(line) ? line.rfind(')') : line.npos;
  return end != line.npos && end + 2 < line.size() ? line[end + 2] : '\0';
}

// Whether all threads of the process are known, `also` one of them; the first does not count. False
// where the system does not tell.
bool all_are_own(pid_t also) {
  struct Entry {
    std::uint64_t inode;
    std::int64_t next;
    unsigned short length;
    unsigned char type;
    char name[1];
  };
  alignas(Entry) char entries[1024];
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    return false;
  }
  forget_dead();
  const auto first = getpid();
  bool all = true;
  long count = 0;
  while (all && (count = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; at < count && all;) {
      const auto& entry = *reinterpret_cast<const Entry*>(entries + at);
      pid_t number = 0;
      std::from_chars(entry.name, entry.name + std::strlen(entry.name), number);
      all = number == 0 || number == first || number == also || is_own(number);
      at += entry.length;
    }
  }
  close(folder);
  return all && count == 0;
}

constexpr int kMoments = 3;  // of a millisecond, in which a new task notes itself

void note_own_thread() {
  for (std::atomic<pid_t>& one : g_process.own_threads.numbers) {
    pid_t free = 0;
    if (one.compare_exchange_strong(free, kernel_thread())) {
      return;
    }
  }
}

void* begin(void*) {
  note_own_thread();
  void (*const body)(void*) = g_process.own_threads.next_body;
  void* const argument = g_process.own_threads.next_argument;
  ++g_process.own_threads.tasks_to_come;
  g_process.own_threads.starting = false;
  body(argument);
  MEMO_DCHECK(g_process.own_threads.count != 0);
  --g_process.own_threads.count;
  // exit() may come now, and the program's signals as they would on its own last thread.
  if (g_process.own_threads.ending) {
    pthread_sigmask(SIG_SETMASK, &g_process.own_threads.programs_mask, nullptr);
  }
  return nullptr;
}

void do_task(void* task) {
  os::Apart().run(
      [](void* apart, const RecursionGuard& guard) {
        note_own_task();
        static_cast<state::Task*>(apart)->work(guard);
      },
      task);
  static_cast<state::Task*>(task)->running = false;
}

}  // namespace

void note_own_task() {
  note_own_thread();
  MEMO_DCHECK(g_process.own_threads.tasks_to_come != 0);
  --g_process.own_threads.tasks_to_come;
}

bool start_thread(void (*body)(void*), void* argument, const RecursionGuard& guard) {
  if (g_process.own_threads.ending || g_process.own_threads.starting.exchange(true)) {
    return false;
  }
  g_process.own_threads.next_body = body;
  g_process.own_threads.next_argument = argument;
  if (g_process.own_threads.count++ == 0) {
    pthread_sigmask(SIG_BLOCK, nullptr, &g_process.own_threads.programs_mask);
  }
  const bool started = os::start_own_thread(begin, nullptr, nullptr, guard);
  if (!started) {
    --g_process.own_threads.count;
    g_process.own_threads.starting = false;
  }
  return started;
}

bool sleep_own_thread(Nanos time) {
  const std::uint32_t seen = g_process.own_threads.news;
  if (g_process.own_threads.ending) {
    return true;
  }
  const timespec limit{static_cast<std::time_t>(time / os::kSecond),
                       static_cast<long>((time % os::kSecond).count())};
  return syscall(SYS_futex, &g_process.own_threads.news, FUTEX_WAIT_PRIVATE, seen, &limit) == 0 ||
         errno == ETIMEDOUT || errno == EINTR || errno == EAGAIN;
}

bool program_is_gone() {
  if (os::confined()) {
    return g_process.own_threads.ending;
  }
  forget_dead();
  const char first = state_of_first();
  if ((first == 'Z' || first == 'X') && all_are_own(0)) {
    g_process.own_threads.ending = true;
    wake_own_threads();
  }
  return g_process.own_threads.ending;
}

void end_own_threads_with_last() {
  const os::KeepErrno keep;
  const pid_t me = kernel_thread();
  g_process.own_threads.first_has_left = g_process.own_threads.first_has_left || me == getpid();
  if (!g_process.own_threads.first_has_left || g_process.own_threads.count == 0 || os::confined()) {
    return;
  }
  // One that has just been started is not known yet.
  for (int i = 0;
       i < last_moments() &&
       (g_process.own_threads.starting || g_process.own_threads.tasks_to_come != 0) && os::rest();
       ++i) {
  }
  bool last = all_are_own(me);
  for (int i = 0; i < kMoments && !last && os::rest(); ++i) {
    last = all_are_own(me);
  }
  if (!last) {
    wake_own_threads();  // from now on they look often
    return;
  }
  g_process.own_threads.ending = true;
  wake_own_threads();
  pid_t theirs[std::size(g_process.own_threads.numbers)];
  std::copy(std::begin(g_process.own_threads.numbers), std::end(g_process.own_threads.numbers),
            theirs);
  for (int i = 0; i < last_moments() && std::ranges::any_of(theirs, lives) && os::rest(); ++i) {
  }
}

void start_task(state::Task& task, void (*work)(const RecursionGuard&),
                const RecursionGuard& guard) {
  if (task.running.exchange(true)) {
    return;
  }
  task.work = work;
  if (!start_thread(do_task, &task, guard)) {
    task.running = false;
  }
}

}  // namespace memo
