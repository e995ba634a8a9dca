#include "src/base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <ctime>

#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The kernel compares 32 bits: the word's low half, which has the flags.
static_assert(std::endian::native == std::endian::little);
// 0, or the errno of the refusal.
int futex(std::atomic<std::uint64_t>& word, int operation, std::uint32_t value,
          const timespec* limit) {
  const int saved = errno;
  const bool done =
      syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit) >= 0;
  const int reason = done ? 0 : errno;
  errno = saved;
  return reason;
}

}  // namespace

bool Lock::lock_within(Patience patience) {
  for (int i = 0; i < tuning::kLockLooks; ++i) {
    if (owner() == 0 && try_lock()) {
      return true;
    }
    if (held_by_me()) {
      return false;
    }
    relax();
  }
  const bool briefly = patience == Patience::kCall;
  const std::uint64_t stale = briefly ? kStale : kStaleLong;
  const Nanos limit = briefly ? tuning::kCallPatience : tuning::kForkPatience;
  const Nanos start = os::nanoseconds();
  Nanos since = start;     // the owner has had it, as far as is known
  std::uint64_t last = 0;  // that owner; 0: nobody
  while (!try_lock()) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    if ((word & (stale | kStaleLong)) != 0) {
      return false;
    }
    const Nanos now = os::nanoseconds();
    // A new owner has no flag: another has the lock now, or the same one again.
    if ((word & kWaited) == 0 || (word & ~kFlags) != last) {
      since = now;
    }
    last = word & ~kFlags;
    const bool gone = now - since >= limit;
    if (!gone && now - start >= limit + tuning::kForkPatience) {
      return false;  // they have it in turn
    }
    const std::uint64_t flag = gone ? stale : kWaited;
    if (word == 0 || !word_.compare_exchange_strong(word, word | flag)) {
      continue;
    }
    if (gone) {
      return false;
    }
    sleep(word | flag, std::min(limit - (now - since), tuning::kLockSleep));
  }
  return true;
}

// Where the system refuses to let it sleep, the thread looks again after a short while.
void Lock::sleep(std::uint64_t word, Nanos time) {
  const timespec limit{0, static_cast<long>(time.count())};
  const int reason = futex(word_, FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(word), &limit);
  const bool told = reason == 0 || reason == ETIMEDOUT || reason == EINTR || reason == EAGAIN;
  for (int i = 0; !told && i < 10 * tuning::kLockLooks; ++i) {
    relax();
  }
}

void Lock::wake() {
  futex(word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
}

}  // namespace memo
