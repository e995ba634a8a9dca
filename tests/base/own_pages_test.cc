// Which memory is the process' alone, told by the kernel that runs the test.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/own_pages.h"

namespace memo {
namespace {

// The bytes of a huge page, in small ones.
class Memory {
 public:
  explicit Memory(int flags = MAP_PRIVATE) {
    area_ = mmap(nullptr, 2 * os::kHugePage, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    REQUIRE(area_ != MAP_FAILED);
    madvise(area_, 2 * os::kHugePage, MADV_NOHUGEPAGE);
    start =
        reinterpret_cast<char*>(round_up(reinterpret_cast<std::uint64_t>(area_), os::kHugePage));
  }
  ~Memory() { munmap(area_, 2 * os::kHugePage); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void write() const { std::memset(start, 1, os::kHugePage); }
  [[nodiscard]] bool is_own() const { return os::is_own(start); }

  char* start = nullptr;

 private:
  void* area_ = nullptr;
};

TEST_CASE("own pages: memory that was written as a whole") {
  const Memory memory;
  CHECK_FALSE(memory.is_own());
  for (std::uint64_t at = 0; at < os::kHugePage; at += 4096) {
    const volatile char* byte = memory.start + at;
    CHECK(*byte == 0);  // the one page of zeros of all
  }
  CHECK_FALSE(memory.is_own());
  memory.write();
  if (os::page_size() == 4096) {
    CHECK(memory.is_own());
  }
  CHECK(os::purge(memory.start + os::kHugePage - os::page_size(), os::page_size()));
  CHECK_FALSE(memory.is_own());
}

TEST_CASE("own pages: not what a child has as well, nor what is shared or not told") {
  const Memory memory;
  memory.write();
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    char byte = 0;
    close(ends[1]);
    _exit(::read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  CHECK_FALSE(memory.is_own());
  close(ends[0]);
  close(ends[1]);
  CHECK(waitpid(child, nullptr, 0) == child);
  if (os::page_size() == 4096) {
    CHECK(memory.is_own());
  }
  CHECK_FALSE(os::is_own(memory.start, "/proc/self/no such file"));
  CHECK_FALSE(os::is_own(memory.start, "/dev/null"));
  const Memory shared(MAP_SHARED);
  shared.write();
  CHECK_FALSE(shared.is_own());
}

}  // namespace
}  // namespace memo
