// What is said before a misuse ends the process: every report names pointer, block and thread.
#include "src/engine/misuse.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>
#include <string>

#include "tests/support/engines.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::Driver;

// The line that the report writes in a child of its own, which must end by SIGABRT; the number of
// its thread, which must be the child's, is replaced.
template <typename Report>
std::string line_of(Report&& report) {
  pid_t child = 0;
  int status = 0;
  std::string line = testing::stderr_of([&] {
    child = fork();
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      report();
    }
    waitpid(child, &status, 0);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  const std::string by = " by thread " + std::to_string(child) + ": ";
  const std::size_t at = line.find(by);
  REQUIRE(at != std::string::npos);
  return line.replace(at, by.size(), " by its thread: ");
}

std::string hex(const void* pointer) {
  std::ostringstream text;
  text << pointer;
  return text.str();
}

std::string expected(const char* function, const char* what, const void* pointer,
                     const std::string& rest) {
  return std::string("memomalloc: ") + function + "(): " + what + " " + hex(pointer) +
         " by its thread: " + rest;
}

constexpr const char* kAdvice = "; valgrind, without this library, tells where\n";

TEST_CASE("misuse: a report names the pointer, its block and the thread", "[engine]") {
  testing::drive([](Engine& engine, Driver&, const Lane&) {
    auto* block = static_cast<char*>(engine.allocate({300'000, 16, Op::k_malloc, false}));
    REQUIRE(block != nullptr);
    const std::string whole =
        "a block of 303104 bytes at " + hex(block) + " in the pool, of lane 0";
    {
      char* inside = block + 8193;
      CHECK(line_of([&] { report_pointer(engine, "free", inside); }) ==
            expected("free", "invalid pointer", inside,
                     "it lies 8193 bytes into " + whole + ", in use" + kAdvice));
    }
    {
      char* far = block + (32ULL << 20);
      REQUIRE(engine.owns(far));
      CHECK(line_of([&] { report_pointer(engine, "free", far); }) ==
            expected("free", "invalid pointer", far,
                     std::string("no block of ours lies there") + kAdvice));
    }
    {
      CHECK(line_of([&] { report_size(engine, "free_sized", block, 77); }) ==
            expected("free_sized", "wrong size for pointer", block,
                     "77 bytes, but it is " + whole + ", in use\n"));
    }
    {
      CHECK(line_of([&] { report_alignment(engine, "free_aligned_sized", block, 8); }) ==
            expected("free_aligned_sized", "wrong alignment for pointer", block,
                     "8 bytes, but it is " + whole + ", in use\n"));
    }
    REQUIRE(engine.free(block));
    CHECK(line_of([&] { report_pointer(engine, "realloc", block); }) ==
          expected("realloc", "freed pointer", block,
                   "it is " + whole + ", which is free already" + kAdvice));
  });
}

TEST_CASE("misuse: the sizes that a sized free may name", "[engine]") {
  testing::drive([](Engine& engine, Driver&, const Lane&) {
    void* block = engine.allocate({300'000, 16, Op::k_malloc, false});
    REQUIRE(block != nullptr);
    CHECK(engine.may_have_size(block, 300'000));
    CHECK(engine.may_have_size(block, 303'104));
    CHECK_FALSE(engine.may_have_size(block, 303'105));
    CHECK_FALSE(engine.may_have_size(block, 299'008));
    REQUIRE(engine.resize(block, 100'000));
    CHECK(engine.may_have_size(block, 100'000));
    CHECK_FALSE(engine.may_have_size(block, 300'000));
    engine.note_left_larger();
    CHECK(engine.may_have_size(block, 1));
    CHECK(engine.free(block));
  });
}

}  // namespace
}  // namespace memo
