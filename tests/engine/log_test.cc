// What a lane's log holds.
#include <sys/wait.h>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string_view>

#include "src/base/proc_file.h"
#include "src/engine/stream_log.h"
#include "tests/support/process.h"

namespace memo {
namespace {

// Whether a trace of so many calls fills the log. In a child, with whose end its memory goes.
bool fills(int calls) {
  const int status = testing::status_of_child([&] {
    StreamLog log;
    if (!log.take_memory(true)) {
      return 2;
    }
    for (int i = 0; i < calls; ++i) {
      log.recorder.note({.size = 65'536}, 0);
    }
    return log.recorder.full() ? 1 : 0;
  });
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) <= 1);
  return WEXITSTATUS(status) == 1;
}

// KiB that the process may write, used or not: what RLIMIT_DATA and strict overcommit count.
std::uint64_t writable_kib() {
  std::uint64_t kib = 0;
  os::LineReader status("/proc/self/status");
  for (std::string_view line; status.next(line);) {
    kib = line.starts_with("VmData:") ? os::number_in(line) : kib;
  }
  return kib;
}

// A hundred threads that learn at once are not to take 50 MiB of what others may commit.
TEST_CASE("stream log: commits what it needs", "[engine]") {
  const int status = testing::status_of_child([] {
    StreamLog log;
    const std::uint64_t before = writable_kib();
    return before != 0 && log.take_memory(false) && writable_kib() <= before + 64 ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("stream log: a trace holds most of a million calls, and not one and a half", "[engine]") {
  CHECK_FALSE(fills(750'000));
  CHECK(fills(1'500'000));
}

}  // namespace
}  // namespace memo
