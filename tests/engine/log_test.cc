// What a lane's log holds.
#include <sys/resource.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdint>

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

// A hundred threads that learn at once are not to take 50 MiB of what others may commit.
TEST_CASE("stream log: commits what it needs", "[engine]") {
  const int answer = testing::answer_of_child([] {
    StreamLog log;
    const std::uint64_t before = testing::writable_bytes();
    const bool taken = log.take_memory(false);
    return before != 0 && taken && testing::writable_bytes() <= before + (64 << 10) ? 0 : 1;
  });
  CHECK(answer == 0);
}

TEST_CASE("stream log: asks at once for a thread that has been refused nothing", "[engine]") {
  const bool another = GENERATE(false, true);
  const int answer = testing::answer_of_child([another] {
    StreamLog log;
    rlimit limit{};
    getrlimit(RLIMIT_DATA, &limit);
    const rlimit none = {os::page_size(), limit.rlim_max};  // none at all means no limit
    setrlimit(RLIMIT_DATA, &none);
    for (int i = 0; i < 4; ++i) {
      if (log.take_memory(false)) {
        return 3;
      }
    }
    setrlimit(RLIMIT_DATA, &limit);
    if (another) {
      log.forget_refusals();
    }
    return log.take_memory(false) ? 1 : 2;
  });
  CHECK(answer == (another ? 1 : 2));
}

TEST_CASE("stream log: a trace holds most of a million calls, and not one and a half", "[engine]") {
  CHECK_FALSE(fills(750'000));
  CHECK(fills(1'500'000));
}

}  // namespace
}  // namespace memo
