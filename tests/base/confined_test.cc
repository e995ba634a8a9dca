// A thread that has taken system calls from itself is noticed.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "src/base/os.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::status_of_child;

// Adds a filter that allows everything but `call`.
bool add_filter_silently(std::uint32_t call = UINT32_MAX) {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// False where the kernel has none.
bool filters_are_known() {
  return status_of_child([] { return add_filter_silently() ? 0 : 1; }) == 0;
}

// And says so before, as preload's prctl() does.
bool add_filter(std::uint32_t call = UINT32_MAX) {
  os::expect_filter();
  return add_filter_silently(call);
}

TEST_CASE("os: a filter of system calls that was added is noticed, one from before is not",
          "[base]") {
  const int status = status_of_child([] {
    os::start();
    if (os::confined()) {
      return 1;
    }
    if (!add_filter()) {
      return 0;  // the kernel has none
    }
    if (!os::confined()) {
      return 2;
    }
    os::start();
    if (os::confined()) {
      return 3;
    }
    bool other = false;
    std::thread([&] { other = add_filter() && os::confined(); }).join();
    return other && !os::confined() ? 0 : 4;
  });
  CHECK(status == 0);
}

TEST_CASE("os: a thread is not trusted for some seconds where a filter is expected", "[base]") {
  const int status = status_of_child([] {
    os::start();
    if (!filters_are_known()) {
      return 0;
    }
    // By a bare call, which nobody has told of.
    const auto confined_after = [](Nanos since) {
      if (os::confined()) {
        return false;
      }
      os::expect_filter(os::coarse_nanoseconds() - since);
      const bool added = add_filter_silently();
      return added && os::confined();
    };
    bool trusted = false;
    for (int thread = 0; thread < 20 && !trusted; ++thread) {  // for a moment only
      std::thread([&] { trusted = !confined_after(12 * os::kSecond); }).join();
    }
    bool noticed = false;
    std::thread([&] { noticed = confined_after(8 * os::kSecond); }).join();
    return trusted && noticed ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("os: a filter that was found is not asked for again", "[base]") {
  const int status = status_of_child([] {
    os::start();
    if (!add_filter()) {
      return 0;  // the kernel has none
    }
    return os::confined() && add_filter(SYS_openat) && os::confined() ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("os: a filter is noticed where no file can be opened", "[base]") {
  const int status = status_of_child([] {
    os::start();
    const rlimit none{};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0 || os::confined()) {
      return 1;
    }
    return !add_filter(SYS_prctl) || os::confined() ? 0 : 2;  // without asking by prctl
  });
  CHECK(status == 0);
}

TEST_CASE("os: what is asked for at the start is not asked again", "[base]") {
  os::start();
  const std::uint64_t bytes = os::physical_memory();
  errno = EXDEV;
  CHECK(os::physical_memory() == bytes);
  CHECK_FALSE(os::confined());
  os::rest();
  CHECK(errno == EXDEV);
}

}  // namespace
}  // namespace memo
