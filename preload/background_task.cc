#include "preload/background_task.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <string_view>

#include "src/base/apart.h"
#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/proc_file.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// The kernel's numbers of the library's own threads and of what they do apart, each until it is seen to be nobody's: what
// has ended here is still about to end there. 0: free. There are fewer.
constinit std::atomic<pid_t> own[32] = {};
constinit std::atomic<std::uint32_t> count_of_own{
    0};  // threads that are started and have not yet ended
constinit std::atomic<bool> ending{false};
constinit std::atomic<bool> first_has_left{false};  // the program's first thread
constinit std::atomic<std::uint32_t> news{0};       // who sleeps looks where this changes
constinit sigset_t programs_mask = {};  // of the thread that has started the first of them

pid_t kernel_thread() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

bool lives(pid_t number) {
  return number != 0 && syscall(SYS_tgkill, getpid(), number, 0) == 0;
}

void forget_dead() {
  for (std::atomic<pid_t>& one : own) {
    pid_t number = one;
    if (number != 0 && !lives(number)) {
      one.compare_exchange_strong(number, 0);
    }
  }
}

bool is_own(pid_t number) {
  return std::any_of(std::begin(own), std::end(own),
                     [number](const std::atomic<pid_t>& one) { return one == number; });
}

void wake_own_threads() {
  news.fetch_add(1);
  syscall(SYS_futex, &news, FUTEX_WAKE_PRIVATE, INT_MAX);
}

// The state letter of the process' first thread, "Z" once it has ended and others go on; 0: not told.
char state_of_first() {
  os::LinesOf<96> file("/proc/self/stat");  // the name, at most 16 bytes, is in parentheses
  std::string_view line;
  const std::size_t end = file.next(line) ? line.rfind(')') : line.npos;
  return end != line.npos && end + 2 < line.size() ? line[end + 2] : '\0';
}

// Whether all threads of the process are known, `also` one of them; the first does not count. False where the system does
// not tell.
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

constexpr int kMoments =
    3;  // of a millisecond, in which a task of the kernel comes to say whose it is

struct Start {
  void (*body)(void*);
  void* argument;
};

// Starts are rare, and each is over before the next: the thread takes it, and says so.
constinit Start next_start = {};
constinit std::atomic<bool> start_taken{true};
// Tasks of threads that have taken their start, and that have not said yet whose they are.
constinit std::atomic<std::uint32_t> tasks_to_come{0};

void note_own_thread() {
  for (std::atomic<pid_t>& one : own) {
    pid_t free = 0;
    if (one.compare_exchange_strong(free, kernel_thread())) {
      return;
    }
  }
}

void* begin(void*) {
  note_own_thread();
  const Start mine = next_start;
  ++tasks_to_come;
  start_taken = true;
  mine.body(mine.argument);
  --count_of_own;
  if (ending) {  // exit() may come now, and the program's signals as they would on its own last thread
    pthread_sigmask(SIG_SETMASK, &programs_mask, nullptr);
  }
  return nullptr;
}

}  // namespace

void note_own_task() {
  note_own_thread();
  --tasks_to_come;
}

bool start_thread(void (*body)(void*), void* argument) {
  bool free = true;
  if (ending || !start_taken.compare_exchange_strong(free, false)) {
    return false;
  }
  next_start = {body, argument};
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (count_of_own++ == 0) {
    programs_mask = before;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, tuning::kOwnStack);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, begin, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    --count_of_own;
    start_taken = true;
  }
  return started;
}

const std::atomic<bool>& own_threads_end() {
  return ending;
}

bool sleep_own_thread(Nanos time) {
  const std::uint32_t seen = news;
  if (ending) {
    return true;
  }
  const timespec limit{static_cast<std::time_t>(time / os::kSecond),
                       static_cast<long>((time % os::kSecond).count())};
  return syscall(SYS_futex, &news, FUTEX_WAIT_PRIVATE, seen, &limit) == 0 || errno == ETIMEDOUT ||
         errno == EINTR || errno == EAGAIN;
}

bool first_thread_has_left() {
  return first_has_left;
}

bool program_is_gone() {
  if (os::confined()) {
    return ending;
  }
  forget_dead();
  const char first = state_of_first();
  if ((first == 'Z' || first == 'X') && all_are_own(0)) {
    ending = true;
    wake_own_threads();
  }
  return ending;
}

void end_own_threads_with_last() {
  const os::KeepErrno keep;
  const pid_t me = kernel_thread();
  first_has_left = first_has_left || me == getpid();
  if (!first_has_left || count_of_own == 0 || os::confined()) {
    return;
  }
  // One that has just been started is not known yet.
  for (int i = 0; i < tuning::kReportPatience && (!start_taken || tasks_to_come != 0) && os::rest();
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
  ending = true;
  wake_own_threads();
  pid_t theirs[std::size(own)];
  std::copy(std::begin(own), std::end(own), theirs);
  for (int i = 0; i < tuning::kReportPatience && std::ranges::any_of(theirs, lives) && os::rest();
       ++i) {
  }
}

void let_own_threads_live() {
  ending = false;
}

void forget_own_threads() {
  for (std::atomic<pid_t>& one : own) {
    one = 0;
  }
  count_of_own = 0;
  tasks_to_come = 0;
  start_taken = true;
  ending = first_has_left = false;
}

void BackgroundTask::run(void* self) {
  os::Apart().run(
      [](void* task) {
        note_own_task();
        const RecursionGuard guard;
        static_cast<BackgroundTask*>(task)->work_(guard);
      },
      self);
  static_cast<BackgroundTask*>(self)->running_ = false;
}

void BackgroundTask::start() {
  if (!running_.exchange(true) && !start_thread(run, this)) {
    running_ = false;
  }
}

}  // namespace memo
