// What a lane's log holds.
#include <sys/wait.h>
#include <catch2/catch.hpp>

#include "src/engine/stream_log.h"
#include "tests/support/process.h"

namespace memo {
namespace {

// Whether a trace of so many calls fills the log. In a child, with whose end its memory goes.
bool fills(int calls) {
  const int status = testing::status_of_child([&] {
    StreamLog log;
    if (!log.prepare(true)) {
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

TEST_CASE("stream log: a trace holds most of a million calls, and not one and a half", "[engine]") {
  CHECK_FALSE(fills(750'000));
  CHECK(fills(1'500'000));
}

}  // namespace
}  // namespace memo
