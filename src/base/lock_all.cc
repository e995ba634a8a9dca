#include "src/base/lock_all.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "src/base/bits.h"
#include "src/base/keep_errno.h"
#include "src/base/mappings.h"
#include "src/base/os.h"

namespace memo::os {
namespace {

// A mapping can reach beyond: Linux makes one of what lies side by side.
bool overlap(const Reserved& range, const Mapping& mapping) {
  return mapping.start < range.start + range.bytes && range.start < mapping.start + mapping.bytes;
}

// os::reserve() keeps one there.
void* page_behind(const Reserved& range) {
  return reinterpret_cast<void*>(range.start + range.bytes);
}

// Whether Linux lets the process lock more than its limit, which no call answers: a part of what is
// reserved, as large as the limit and more, is locked for a moment. Nothing there gets memory.
bool exceeds_limit(std::uint64_t limit, const Reserved& reserved) {
  if (limit >= reserved.bytes - page_size()) {
    return false;
  }
  const std::uint64_t bytes = round_down(limit, page_size()) + page_size();
  // The end, that nobody commits before all that is in front.
  auto* start = reinterpret_cast<void*>(reserved.start + reserved.bytes - bytes);
  // Before 5.18 the answer is "no memory" also where the pages are locked, since they have no
  // access.
  if (mlock2(start, bytes, MLOCK_ONFAULT) != 0 && !locking(start).reserved) {
    return false;
  }
  unlock(start, bytes);
  return true;
}

// Linux' own rule, for what has access.
bool may_lock(const Reserved& reserved) {
  std::uint64_t all = 0;
  rlimit limit{};
  return each_mapping([&](const Mapping& mapping) {
           all += mapping.has_access ? mapping.bytes : 0;
           return true;
         }) &&
         getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
         (all <= limit.rlim_cur || exceeds_limit(limit.rlim_cur, reserved));
}

// What has no memory, or none that can be locked, is refused and passed over, as mlockall does.
// False where the call as such is refused.
bool lock_mapping(const Mapping& mapping, unsigned how) {
  return mlock2(reinterpret_cast<void*>(mapping.start), mapping.bytes, how) == 0 ||
         (errno != EPERM && errno != ENOSYS);
}

// Others' mappings without access come last, as far as the limit allows: an allocator's that grow
// by mprotect are locked from then on.
bool lock_mapped(unsigned how, std::span<const Reserved> reserved) {
  return each_mapping([=](const Mapping& mapping) {
           return !mapping.has_access || lock_mapping(mapping, how);
         }) &&
         each_mapping([=](const Mapping& mapping) {
           const bool left_out = std::ranges::any_of(
               reserved, [&](const Reserved& range) { return overlap(range, mapping); });
           return mapping.has_access || left_out || lock_mapping(mapping, how);
         });
}

// False where it is not known to be allowed, or refused: then nothing is promised yet.
bool lock_one_by_one(int flags, std::span<const Reserved> reserved, decltype(&::mlockall) call) {
  KeepErrno keep;
  if (confined() || !may_lock(reserved.front())) {
    return false;
  }
  if ((flags & MCL_FUTURE) != 0) {
    if (call(flags & ~MCL_CURRENT) != 0) {
      return false;
    }
  } else if (locking(page_behind(reserved.front())).future != Lock::kNo) {
    munlockall();  // as the call ends what an earlier one has said of the future
  }
  return lock_mapped((flags & MCL_ONFAULT) != 0 ? MLOCK_ONFAULT : 0, reserved);
}

}  // namespace

int lock_all(int flags, std::span<const Reserved> reserved, decltype(&::mlockall) call) {
  const bool known = (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)) == 0;
  if (known && (flags & MCL_CURRENT) != 0 && !reserved.empty() &&
      lock_one_by_one(flags, reserved, call)) {
    return 0;
  }
  return call(flags);
}

}  // namespace memo::os
