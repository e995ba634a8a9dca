// A forked child and the locks that threads held which it does not have.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::in_thread;
using testing::OwnEngine;

constexpr Request kRequest{1ULL << 20, 64, Op::k_malloc, false};

// 0 if the calling thread, in a child that has just been forked, gets a block from its lane.
int serve_in_child(Engine& engine) {
  engine.after_fork_in_child();
  void* block = engine.allocate(kRequest);
  return block != nullptr && engine.free(block) ? 0 : 1;
}

// Somebody else is at work on the lane nearly always; with the lane locked for good, the child of
// about each second fork could not use it, and a thread that leaves it would wait for ever.
TEST_CASE("fork: a lane that was being tended is whole in the child", "[engine]") {
  const bool idle = GENERATE(true, false);
  INFO("the lane is idle " << idle);
  OwnEngine own;
  in_thread([&] {
    void* block = own.engine.allocate(kRequest);
    REQUIRE(own.engine.free(block));
    if (idle) {
      own.engine.thread_ended();
    }
    std::atomic<bool> over{false};
    std::thread keeper([&] {
      auto& lane = const_cast<Lane&>(own.engine.lane(0));
      while (!over) {
        lane.give_back();
      }
    });
    int stuck = 0;
    const auto fork_once = [&] {
      own.engine.before_fork();
      const int status = testing::status_of_child([&] { return serve_in_child(own.engine); });
      own.engine.after_fork_in_parent();
      stuck += status != 0 ? 1 : 0;
    };
    for (int i = 0; i < 100; ++i) {
      if (idle) {
        in_thread(fork_once);  // in the child a new thread takes the lane
      } else {
        fork_once();
      }
    }
    over = true;
    keeper.join();
    CHECK(stuck == 0);
  });
}

}  // namespace
}  // namespace memo
