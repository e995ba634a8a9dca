// A forked child and the locks that threads held which it does not have.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <utility>

#include "src/engine/engine.h"
#include "tests/support/engines.h"
#include "tests/support/process.h"

namespace memo {
namespace {

using testing::Driver;
using testing::in_thread;
using testing::OwnEngine;
using testing::Program;

constexpr Request kRequest{1ULL << 20, 64, Op::k_malloc, false};

// 0 if the calling thread, in a child that has just been forked, gets a block from its lane.
int serve_in_child(Engine& engine) {
  engine.forks.after_in_child();
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
      auto& lane = const_cast<Lane&>(own.engine.lanes.at(0));
      while (!over) {
        lane.give_back();
      }
    });
    int stuck = 0;
    const auto fork_once = [&] {
      own.engine.before_fork();
      const int status = testing::status_of_child([&] { return serve_in_child(own.engine); });
      own.engine.forks.after_in_parent();
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

// Stands for a handler that forks in the middle of a call of the lane, with fork()'s handlers or
// without.
Engine* forking = nullptr;
bool with_handlers = false;
pid_t forked_child = -1;
void fork_in_call() {
  Engine* engine = std::exchange(forking, nullptr);
  if (engine == nullptr) {
    return;
  }
  if (with_handlers) {
    engine->before_fork();
  }
  forked_child = fork();
  if (with_handlers && forked_child == 0) {
    engine->forks.after_in_child();
  } else if (with_handlers) {
    engine->forks.after_in_parent();
  }
}

TEST_CASE("fork: in the middle of a call, which goes on in the child as well", "[engine]") {
  with_handlers = GENERATE(true, false);
  INFO("with fork()'s handlers " << with_handlers);
  OwnEngine own({}, {.trim_next = fork_in_call});
  const Program program = testing::untried_program();
  in_thread([&] {
    forking = &own.engine;
    Driver driver(own.engine);
    driver.iterate(program, 20);  // the slab is taken in its course
    if (forked_child == 0) {
      alarm(30);
      const Lane& lane = own.engine.lanes.at(0);
      testing::iterations_until_serving(driver, program, lane);
      driver.free_due(UINT64_MAX);
      const bool whole = driver.wrong == 0 && driver.passed_on == 0;
      _exit(own.engine.forks.forked() && lane.phase() == Phase::kServing && whole ? 7 : 1);
    }
    driver.free_due(UINT64_MAX);
    CHECK(driver.wrong == 0);
    CHECK(driver.passed_on == 0);
    CHECK_FALSE(own.engine.forks.forked());
    CHECK(own.engine.lanes.at(0).phase() == Phase::kServing);
    own.engine.thread_ended();
  });
  int status = -1;
  REQUIRE(forking == nullptr);
  REQUIRE(waitpid(forked_child, &status, 0) == forked_child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 7));
}

// The child of a bare system call: another thread may have had any lock, which it never lets go.
int live_without_handlers(Engine& engine, Driver& driver, const testing::Block& before) {
  alarm(30);
  const Program program = testing::program_of(7);
  driver.iterate(program, 3);
  driver.release(before);
  int in_new_thread = 1;
  std::thread([&] {
    Driver fresh(engine, 1ULL << 50);
    fresh.iterate(program, 3);
    fresh.free_due(UINT64_MAX);
    in_new_thread = fresh.wrong == 0 && engine.lanes.count() == 2 ? 0 : 2;
  }).join();
  driver.free_due(UINT64_MAX);
  return driver.wrong == 0 && engine.forks.forked() ? in_new_thread : 3;
}

TEST_CASE("fork: a child that no handler tells of does without what others held", "[engine]") {
  OwnEngine own;
  in_thread([&] {
    Driver driver(own.engine);
    const testing::Block before = driver.take(kRequest.size);
    REQUIRE(before.owned);
    std::atomic<bool> over{false};
    std::thread other([&] {
      Driver busy(own.engine, 1ULL << 40);
      while (!over) {
        busy.iterate(testing::program_of(8, 6));
        own.engine.give_back.all();
      }
      busy.free_due(UINT64_MAX);
      CHECK(busy.wrong == 0);
      own.engine.thread_ended();
    });
    while (own.engine.lanes.count() < 2) {
      os::rest();
    }
    int failed = 0;
    for (int i = 0; i < 60; ++i) {
      failed += testing::status_of_child(
                    [&] { return live_without_handlers(own.engine, driver, before); }) != 0
                    ? 1
                    : 0;
    }
    CHECK(failed == 0);
    over = true;
    other.join();
    driver.release(before);
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}

// The child of a bare system call, while another thread takes a slab from the forking one, and back.
TEST_CASE("fork: a child that no handler tells of finds each slab once", "[engine]") {
  OwnEngine own;
  const Program program = testing::program_of(9);
  in_thread([&] {
    Driver driver(own.engine);
    driver.iterate(program, 12);
    driver.free_due(UINT64_MAX);
    Slabs& slabs = own.engine.lanes.shared().slabs;
    Lane& lane = own.engine.lanes.at(0);
    REQUIRE(lane.slab_height() != 0);
    std::atomic<bool> over{false};
    std::thread taking([&] {
      while (!over) {
        for (std::uint32_t i = 0; i < slabs.count(); ++i) {
          Slab& slab = slabs.at(i);
          const SlabWish wish{.lane = SlabWord::kNoLane - 1, .plan = 1, .height = 1};
          if (lane.hand_over(slab, slab.word(), wish)) {
            slab.let_go(Nanos{0});
          }
        }
      }
    });
    int failed = 0;
    for (int i = 0; i < 60; ++i) {
      failed +=
          testing::status_of_child([&] {
            alarm(30);
            driver.iterate(program, 12);
            int in_new_thread = 1;
            std::thread([&] {
              Driver fresh(own.engine, 1ULL << 50);
              fresh.iterate(program, 3);
              fresh.free_due(UINT64_MAX);
              in_new_thread = fresh.wrong == 0 && fresh.passed_on == 0 ? 0 : 2;
              own.engine.thread_ended();
            }).join();
            driver.free_due(UINT64_MAX);
            const bool serves = lane.phase() == Phase::kServing;
            return serves && driver.wrong == 0 && own.engine.lanes.valid() ? in_new_thread : 3;
          }) != 0;
    }
    CHECK(failed == 0);
    over = true;
    taking.join();
    CHECK(driver.wrong == 0);
    own.engine.thread_ended();
  });
}

}  // namespace
}  // namespace memo
