// Memory that the program has locked, and pages round what is ours alone.
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "src/base/lock_all.h"
#include "tests/support/arenas.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::ArenaFixture;
using testing::OwnSpace;

// By the system call: the sanitizers make the functions do nothing.
bool lock(void* start, std::uint64_t bytes) {
  return syscall(SYS_mlock, start, bytes) == 0;
}

TEST_CASE_METHOD(ArenaFixture, "arena: a locked page holds back no other memory", "[serve]") {
  char* const first = take(kMiB);
  std::vector<char*> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(take(kMiB));
  }
  const bool whole = GENERATE(false, true);
  if (!lock(first, whole ? kMiB : kGranule)) {
    testing::skip("no memory can be locked");
    return;
  }
  const bool together = GENERATE(false, true);
  char* const between = together ? nullptr : blocks[0];
  CHECK(arena.free(first));
  for (char* block : blocks) {
    if (block != between) {
      CHECK(arena.free(block));
    }
  }
  arena.trim();
  CHECK(arena.held().dirty_bytes() <= kMiB);
  if (!whole) {  // the 256 KiB around the page
    CHECK(arena.held().dirty_bytes() >= 200'000);
    CHECK(arena.held().dirty_bytes() <= 400'000);
  }
  CHECK(arena.valid());
  CHECK(resident() <= 2 * kMiB);
  munlock(first, kMiB);
}

TEST_CASE_METHOD(ArenaFixture,
                 "arena: what the system does not take back is offered more and more seldom",
                 "[serve]") {
  constexpr int kPairs = 16;
  std::vector<char*> kept;
  std::vector<char*> freed;
  for (int i = 0; i < kPairs; ++i) {
    kept.push_back(take(kMiB));
    freed.push_back(take(kMiB));
  }
  char* const all = kept.front();
  if (!lock(all, 2 * kPairs * kMiB)) {
    testing::skip("no memory can be locked");
    return;
  }
  constexpr std::uint64_t kCalls = 5000;
  const auto looks_of_calls = [&] {
    const std::uint64_t before = arena.looks();
    for (std::uint64_t i = 0; i < kCalls; ++i) {
      CHECK(arena.free(take(kGranule)));
    }
    return arena.looks() - before;
  };
  for (char* block : freed) {
    CHECK(arena.free(block));
  }
  const std::uint64_t usual = looks_of_calls();
  CHECK(arena.trim() == 0);
  CHECK(arena.held().excess() >= granules_in((kPairs - 1) * kMiB));
  CHECK(looks_of_calls() < usual + usual / 10);
  // It is still offered, and taken once it can be.
  syscall(SYS_munlock, all, 2 * kPairs * kMiB);
  looks_of_calls();
  CHECK(arena.held().excess() == 0_g);
  CHECK(arena.valid());
}

// Checks what a child has answered: 0 is right.
void check_or_skip(int answer) {
  if (answer == testing::kCannotRun) {
    testing::skip("no memory can be locked");
  } else {
    CHECK(answer == 0);
  }
}

// Kilobytes that a line of the process' own status names.
std::uint64_t status_kib(const std::string& name) {
  const std::string all = testing::read_file("/proc/self/status");
  const std::size_t at = all.find(name);
  return at == std::string::npos ? 0 : std::stoull(all.substr(at + name.size()));
}

TEST_CASE("space: a program that locks its memory locks what it uses, not what is reserved",
          "[serve]") {
  const int how = GENERATE(MCL_FUTURE, MCL_CURRENT | MCL_FUTURE);
  const bool before = GENERATE(false, true);
  check_or_skip(testing::answer_of_child([&] {
    rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    if (before && syscall(SYS_mlockall, how) != 0) {
      return testing::kCannotRun;
    }
    OwnSpace own(16ULL << 30);
    testing::OwnArena arena;
    arena.open(&own.space);
    if (!before && syscall(SYS_mlockall, how) != 0) {
      return testing::kCannotRun;
    }
    const std::uint64_t resident = status_kib("RssAnon:");
    const std::uint64_t locked = status_kib("VmLck:");
    const Arena::Block block = arena.allocate(3 * kMiB, 64);
    if (block.start == nullptr) {
      return 1;
    }
    if (status_kib("RssAnon:") > resident + 4096) {
      return 2;
    }
    // What was reserved does not count any more, and the block is locked.
    const std::uint64_t reserved = !before && (how & MCL_CURRENT) != 0 ? 16ULL << 20 : 0;
    if (status_kib("VmLck:") + reserved > locked + 8192) {
      return 3;
    }
    return madvise(block.start, 3 * kMiB, MADV_DONTNEED) != 0 ? 0 : 4;
  }));
}

// A sanitizer's shadows of memory are terabytes, and not to be locked.
#ifndef MEMO_DEBUG  // of all builds with a sanitizer

constexpr std::uint64_t kSmall = 64 << 10;

// Whether the process may lock more than RLIMIT_MEMLOCK says, if it is to; else takes the right
// from it. False where it has none.
bool has_privilege(bool privileged) {
  constexpr std::uint32_t kRight = 1U << CAP_IPC_LOCK;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[2]{};
  if (syscall(SYS_capget, &header, rights) != 0) {
    return false;
  }
  if (privileged) {
    return (rights[0].effective & kRight) != 0;
  }
  rights[0].effective &= ~kRight;
  return syscall(SYS_capset, &header, rights) == 0;
}

// Runs `check` in a process that has reserved terabytes, written some MiB and locked all, and that the
// limit `bytes` holds for; answers what it answers. kCannotRun where so much cannot be allowed.
template <typename Check>
int after_lock_all(int flags, std::uint64_t bytes, bool privileged, Check&& check) {
  return testing::answer_of_child([&] {
    const rlimit limit{bytes, bytes};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || !has_privilege(privileged)) {
      return testing::kCannotRun;
    }
    constexpr std::uint64_t kReserved = 1ULL << 42;
    auto* start = static_cast<char*>(os::reserve(kReserved, os::page_size()));
    if (start == nullptr || !os::commit(start, kSmall)) {
      return 100;
    }
    const os::Reserved reserved{reinterpret_cast<std::uint64_t>(start), kReserved};
    return check(start, os::lock_all(flags, {&reserved, 1}, &::mlockall));
  });
}

bool is_locked(char* page) {
  return madvise(page, os::page_size(), MADV_DONTNEED) != 0;
}

// Whether what the process maps next is locked.
bool locks_what_comes() {
  void* fresh =
      mmap(nullptr, os::page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return is_locked(static_cast<char*>(fresh));
}

TEST_CASE("os: a program that locks all of its memory locks nothing that is only reserved",
          "[serve]") {
  const int flags = GENERATE(MCL_CURRENT, MCL_CURRENT | MCL_FUTURE, MCL_CURRENT | MCL_ONFAULT);
  const bool privileged = GENERATE(false, true);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
  // For one that is privileged the limit says nothing.
  const std::uint64_t bytes = privileged ? kSmall : limit.rlim_max;
  // More than the process has in all, and what the child maps besides.
  const bool allowed = privileged || bytes / 1024 > status_kib("VmSize:") + 4096;
  check_or_skip(after_lock_all(flags, bytes, privileged, [=](char* start, int answer) {
    if (answer != 0) {
      return allowed ? 1 : testing::kCannotRun;
    }
    if (!is_locked(start) || is_locked(start + kMiB) || is_locked(start + (1ULL << 41))) {
      return 2;
    }
    return locks_what_comes() == ((flags & MCL_FUTURE) != 0) ? 0 : 3;
  }));
}

TEST_CASE("os: what is reserved is not locked with what a program will have", "[serve]") {
  const bool privileged = GENERATE(false, true);
  check_or_skip(testing::answer_of_child([=] {
    const rlimit limit{kSmall, kSmall};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || !has_privilege(privileged) ||
        syscall(SYS_mlockall, MCL_FUTURE) != 0) {
      return testing::kCannotRun;
    }
    const std::uint64_t before = status_kib("VmLck:");
    auto* start = static_cast<char*>(os::reserve(1ULL << 42, os::page_size()));
    if (start == nullptr || is_locked(start)) {
      return 1;
    }
    return status_kib("VmLck:") <= before + 4 * os::page_size() / 1024 ? 0 : 2;
  }));
}

TEST_CASE("os: a program that may not lock all of its memory is told so", "[serve]") {
  check_or_skip(after_lock_all(MCL_CURRENT, kSmall, false, [](char* start, int answer) {
    return answer == -1 && errno == ENOMEM && !is_locked(start) ? 0 : 1;
  }));
  check_or_skip(after_lock_all(MCL_CURRENT, 0, false, [](char* start, int answer) {
    return answer == -1 && errno == EPERM && !is_locked(start) ? 0 : 1;
  }));
  check_or_skip(after_lock_all(MCL_CURRENT | 64, kSmall, true, [](char* start, int answer) {
    return answer == -1 && errno == EINVAL && !is_locked(start) ? 0 : 1;
  }));
}

TEST_CASE("os: locking what is there ends the locking of what will be", "[serve]") {
  check_or_skip(after_lock_all(MCL_CURRENT | MCL_FUTURE, kSmall, true, [](char* start, int) {
    const os::Reserved reserved{reinterpret_cast<std::uint64_t>(start), 1ULL << 42};
    if (os::lock_all(MCL_CURRENT, {&reserved, 1}, &::mlockall) != 0 || !is_locked(start)) {
      return 1;
    }
    return locks_what_comes() ? 2 : 0;
  }));
}

#endif

// Whether the page can be read, without a signal where it cannot.
bool readable(const char* page) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const bool can = write(ends[1], page, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

TEST_CASE("os: the pages before and behind our own memory cannot be touched", "[base]") {
  const std::uint64_t page = os::page_size();
  for (const std::uint64_t pages : {1U, 3U}) {
    auto* start = static_cast<char*>(os::map(pages * page));
    REQUIRE(start != nullptr);
    CHECK_FALSE(readable(start - page));
    CHECK_FALSE(readable(start - 1));
    CHECK(readable(start));
    CHECK(readable(start + pages * page - 1));
    CHECK_FALSE(readable(start + pages * page));
    os::unmap(start, pages * page);
    CHECK_FALSE(readable(start));
  }
}

TEST_CASE("space: each of its records lies between pages that cannot be touched", "[serve]") {
  constexpr std::uint64_t kBytes = 256 * kMiB;
  OwnSpace own(kBytes);
  FreeIndex index;
  own.space.index(index);
  REQUIRE(index.has_room());
  REQUIRE(own.space.commit(kBytes - kGranule));
  const std::uint64_t page = os::page_size();
  const std::uint64_t bytes = Space::record_bytes(kBytes);
  CHECK_FALSE(readable(own.records()));
  CHECK_FALSE(readable(own.records() + bytes - 1));
  int arrays = 0;
  bool before = false;
  for (std::uint64_t at = 0; at < bytes; at += page) {
    const bool now = readable(own.records() + at);
    arrays += now && !before ? 1 : 0;
    before = now;
  }
  CHECK(arrays == 6);  // states, lengths, live blocks, owners, tags and nodes of the index
  CHECK_FALSE(readable(own.space.base() - 1));
}

}  // namespace
}  // namespace memo
