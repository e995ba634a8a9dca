// Bits, counters, messages, locks, the operating system and signatures' small helpers.
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "src/base/bits.h"
#include "src/base/counters.h"
#include "src/base/growing_array.h"
#include "src/base/guard.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::status_of_child;
using testing::stderr_of;

TEST_CASE("bits: rounding and logarithms", "[base]") {
  CHECK(sub_sat(7, 3) == 4);
  CHECK(sub_sat(3, 7) == 0);
  CHECK(sub_sat(UINT64_C(0), UINT64_MAX) == 0);
  CHECK(round_up(0, 4096) == 0);
  CHECK(round_up(1, 4096) == 4096);
  CHECK(round_up(4096, 4096) == 4096);
  CHECK(round_up(UINT64_MAX - 4096, 4096) == UINT64_MAX - 4095);
  CHECK(round_down(4095, 4096) == 0);
  CHECK(round_down(8191, 4096) == 4096);
  CHECK(is_power_of_two(1));
  CHECK(is_power_of_two(1ULL << 63));
  CHECK_FALSE(is_power_of_two(0));
  CHECK_FALSE(is_power_of_two(48));
  CHECK(log2_floor(1) == 0);
  CHECK(log2_floor(4095) == 11);
  CHECK(log2_floor(4096) == 12);
  CHECK(log2_floor(UINT64_MAX) == 63);
}

TEST_CASE("counters: every one is added and reset", "[base]") {
  Counters sum;
  Counters other;
  std::uint64_t value = 0;
#define COUNTER(name, unit, help) other.name.add(++value);
#include "src/base/counters.def"
#undef COUNTER
  sum.add(other);
  sum.add(other);
  value = 0;
#define COUNTER(name, unit, help) CHECK(sum.name.get() == 2 * ++value);
#include "src/base/counters.def"
#undef COUNTER
  sum.reset();
#define COUNTER(name, unit, help) CHECK(sum.name.get() == 0);
#include "src/base/counters.def"
#undef COUNTER
}

TEST_CASE("message: one line, with errno kept", "[base]") {
  errno = EXDEV;
  CHECK(stderr_of([] { Line() << "a slab of " << 0 << " and " << UINT64_MAX << " bytes"; }) ==
        "memomalloc: a slab of 0 and 18446744073709551615 bytes\n");
  const std::string closed = stderr_of([] {
    close(STDERR_FILENO);
    errno = EXDEV;
    Line() << "nobody hears this";
    CHECK(errno == EXDEV);
  });
  CHECK(closed.empty());
}

TEST_CASE("message: decimals are cut, not rounded", "[base]") {
  CHECK(stderr_of([] {
          Line().fixed(1234, 1000) << " ";
          Line().fixed(1999, 1000) << " ";
          Line().fixed(7, 1000);
        }) == "memomalloc: 1.2 \nmemomalloc: 1.9 \nmemomalloc: 0.0\n");
}

TEST_CASE("message: long text is cut and still ends its line", "[base]") {
  const std::string text = stderr_of([] { Line() << std::string(2000, 'x') << 12345; });
  CHECK(text.size() == 512);
  CHECK(text.find('\n') == 511);
}

TEST_CASE("message: fail says why and aborts", "[base]") {
  int status = 0;
  const std::string text = stderr_of([&] {
    status = status_of_child([]() -> int {
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      std::signal(SIGABRT, SIG_DFL);
      fail("the reason");
    });
  });
  CHECK(text == "memomalloc: the reason\n");
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
}

TEST_CASE("guard: nests, each thread for itself", "[base]") {
  CHECK(t_state.inside == 0);
  {
    const RecursionGuard outer;
    const RecursionGuard inner;
    CHECK(t_state.inside == 2);
    testing::in_thread([] { CHECK(t_state.inside == 0); });
  }
  CHECK(t_state.inside == 0);
}

TEST_CASE("os: reserved memory is aligned, and usable once committed", "[base]") {
  for (const std::uint64_t alignment : {4096ULL, 2ULL << 20, 64ULL << 20}) {
    const std::uint64_t bytes = 4 * os::page_size();
    auto* start = static_cast<char*>(os::reserve(bytes, alignment));
    REQUIRE(start != nullptr);
    CHECK(reinterpret_cast<std::uint64_t>(start) % alignment == 0);
    REQUIRE(os::commit(start, bytes));
    for (std::uint64_t i = 0; i < bytes; ++i) {
      REQUIRE(start[i] == 0);
    }
    std::memset(start, 1, bytes);
    munmap(start, bytes);
  }
}

// How many of the pages in [start, start + bytes) a core file leaves out, by the kernel's flags of
// their mapping (proc(5)).
std::uint64_t left_out(const void* start, std::uint64_t bytes) {
  const auto first = reinterpret_cast<std::uint64_t>(start);
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t pages = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &low, &high) == 2) {
      from = std::max(low, first);
      to = std::min(high, first + bytes);
    } else if (line.starts_with("VmFlags:") && line.find(" dd") != std::string::npos && from < to) {
      pages += (to - from) / os::page_size();
    }
  }
  return pages;
}

TEST_CASE("os: a core file holds what is committed, nothing that is only reserved", "[base]") {
  const std::uint64_t page = os::page_size();
  auto* start = static_cast<char*>(os::reserve(8 * page, page));
  REQUIRE(start != nullptr);
  CHECK(left_out(start, 8 * page) == 8);
  REQUIRE(os::commit(start, 4 * page));
  CHECK(left_out(start, 4 * page) == 0);
  CHECK(left_out(start, 8 * page) == 4);
  REQUIRE(os::decommit(start + page, page));
  CHECK(left_out(start, 8 * page) == 5);
  os::unmap(start, 8 * page);
}

// As in a child that was forked while another thread of its parent was at this.
TEST_CASE("growing array: reserved once more, it has no memory that it had before", "[base]") {
  GrowingArray<std::uint32_t> array;
  REQUIRE(array.reserve(1 << 20));
  REQUIRE(array.grow(1 << 10));
  GrowingArray<std::uint32_t> before = array;
  REQUIRE(array.reserve(1 << 20));
  REQUIRE(array.data() != before.data());
  REQUIRE(array.grow(1));
  CHECK(left_out(array.data(), os::page_size()) == 0);
  array.data()[0] = 1;
  array.release();
  before.release();
  CHECK(array.data() == nullptr);
}

TEST_CASE("os: no memory is nullptr, with errno kept", "[base]") {
  errno = EXDEV;
  CHECK(os::reserve(1ULL << 60, 4096) == nullptr);
  CHECK(os::map(1ULL << 60) == nullptr);
  CHECK_FALSE(os::commit(nullptr, os::page_size()));
  CHECK(errno == EXDEV);
}

TEST_CASE("os: purged memory reads as zero, and what lies around it stays", "[base]") {
  const std::uint64_t page = os::page_size();
  auto* start = static_cast<char*>(os::map(4 * page));
  REQUIRE(start != nullptr);
  const auto [from, bytes] = GENERATE_COPY(table<std::uint64_t, std::uint64_t>(
      {{page, 2 * page}, {page / 2, 2 * page}, {16, 64}, {page - 1, 2}, {0, 4 * page}}));
  std::memset(start, 7, 4 * page);
  REQUIRE(os::purge(start + from, bytes));
  for (std::uint64_t i = 0; i < 4 * page; ++i) {
    REQUIRE(start[i] == (i >= from && i < from + bytes ? 0 : 7));
  }
  munmap(start, 4 * page);
}

TEST_CASE("os: the process' bytes in memory are the kernel's count", "[base]") {
  constexpr std::uint64_t kBytes = 24 << 20;
  auto* start = static_cast<char*>(os::map(kBytes));
  REQUIRE(start != nullptr);
  const std::uint64_t before = os::process_bytes();
  CHECK(before >= os::page_size());
  CHECK(before < os::physical_memory());
  std::memset(start, 7, kBytes);
  const std::uint64_t more = os::process_bytes() - before;
  CHECK(more >= kBytes - (2 << 20));  // counts of processors may lie behind
  CHECK(more <= kBytes + (2 << 20));
  munmap(start, kBytes);
}

TEST_CASE("os: locked pages are not purged, and keep what they hold", "[base]") {
  const std::uint64_t page = os::page_size();
  auto* start = static_cast<char*>(os::map(page));
  REQUIRE(start != nullptr);
  std::memset(start, 7, page);
  // The system call itself: the sanitizers make mlock() do nothing.
  if (syscall(SYS_mlock, start, page) == 0) {
    CHECK_FALSE(os::purge(start, page));
    CHECK(start[page / 2] == 7);
  }
  munmap(start, page);
}

TEST_CASE("os: the limit on address space is seen", "[base]") {
  CHECK(status_of_child([] {
          rlimit limit{};
          getrlimit(RLIMIT_AS, &limit);
          if (limit.rlim_cur == RLIM_INFINITY && os::address_space_left() != UINT64_MAX) {
            return 1;
          }
          limit.rlim_cur = 1ULL << 46;
          setrlimit(RLIMIT_AS, &limit);
          const std::uint64_t left = os::address_space_left();
          if (left == 0 || left >= 1ULL << 46) {
            return 2;
          }
          limit.rlim_cur = 1 << 20;  // less than is in use
          setrlimit(RLIMIT_AS, &limit);
          return os::address_space_left() == 0 ? 0 : 3;
        }) == 0);
}

TEST_CASE("os: clocks go forward", "[base]") {
  const Nanos before = os::nanoseconds();
  CHECK(os::nanoseconds() >= before);
  CHECK(os::coarse_nanoseconds() <= os::nanoseconds());
  CHECK(os::physical_memory() > 64ULL << 20);
  CHECK(is_power_of_two(os::page_size()));
}

TEST_CASE(
    "os: tells the processors that the process may run on, also to a thread that is tied to one",
    "[base]") {
  cpu_set_t mine;
  REQUIRE(sched_getaffinity(0, sizeof mine, &mine) == 0);
  CHECK(os::processors() == static_cast<std::uint32_t>(CPU_COUNT(&mine)));
  testing::in_thread([&] {
    std::size_t first = 0;
    while (!CPU_ISSET(first, &mine)) {
      ++first;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(os::processors() == static_cast<std::uint32_t>(CPU_COUNT(&mine)));
  });
}

TEST_CASE("os: what the system refuses leaves errno as it was", "[base]") {
  errno = 4711;
  const void* reserved = os::reserve(1ULL << 60U, os::page_size());
  const int left = errno;
  CHECK(reserved == nullptr);
  CHECK(left == 4711);
}

TEST_CASE("os: tells whether the process may have memory on several NUMA nodes", "[base]") {
  constexpr unsigned long kAllowed = 1UL << 2U;  // MPOL_F_MEMS_ALLOWED
  std::array<unsigned long, 16> nodes{};
  if (syscall(SYS_get_mempolicy, nullptr, nodes.data(), 1024, nullptr, kAllowed) != 0) {
    testing::skip("the system does not tell the memory's nodes");
    return;
  }
  int count = 0;
  for (const unsigned long word : nodes) {
    count += std::popcount(word);
  }
  CHECK(os::several_nodes() == (count > 1));
}

}  // namespace
}  // namespace memo
