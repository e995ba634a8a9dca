// A broken invariant ends the process, with its place and text; an intact one goes on.
#include "src/base/check.h"

#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "tests/support/process.h"

namespace memo {
namespace {

// The signal that ends a child which runs `function`, 0 if it ends by itself, and what it says.
template <typename Function>
int signal_of(Function&& function, std::string* said = nullptr) {
  int status = 0;
  const std::string text = testing::stderr_of([&] {
    status = testing::status_of_child([&] {
      std::signal(SIGABRT, SIG_DFL);  // not the tests' handler
      function();
      return 0;
    });
  });
  if (said != nullptr) {
    *said = text;
  }
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_CASE("check: a broken invariant aborts with its place and text", "[base]") {
  volatile int blocks = 2;
  std::string said;
  CHECK(signal_of([&] { MEMO_CHECK(blocks == 1); }, &said) == SIGABRT);
  CHECK(said.find("tests/base/check_test.cc:") != std::string::npos);
  CHECK(said.find("broken: blocks == 1") != std::string::npos);
  CHECK(signal_of([&] { MEMO_CHECK(blocks == 2); }) == 0);
}

TEST_CASE("check: debug builds alone look at the others", "[base]") {
  int looks = 0;
  MEMO_DCHECK(++looks != 0);
  const int signal = signal_of([&] { MEMO_DCHECK(looks > 1); });
#ifdef MEMO_DEBUG
  CHECK(looks == 1);
  CHECK(signal == SIGABRT);
#else
  CHECK(looks == 0);
  CHECK(signal == 0);
#endif
}

}  // namespace
}  // namespace memo
