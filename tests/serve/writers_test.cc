// From where threads write to where their memory is to lie.
#include "src/serve/writers.h"

#include <catch2/catch.hpp>

namespace memo {
namespace {

constexpr NodeSet kZero = only(0);
constexpr NodeSet kOne = only(1);

TEST_CASE("writers: a visit to another node is no move", "[serve]") {
  Whereabouts thread;
  CHECK(thread.take().nodes == 0);
  CHECK_FALSE(thread.note(0));
  for (int i = 0; i < 98; ++i) {
    thread.note(0);
  }
  CHECK(thread.note(1));
  const Whereabouts::Seen seen = thread.take();
  CHECK(seen.nodes == kZero);
  CHECK(seen.most == kZero);
  CHECK(thread.take().nodes == 0);  // each is taken once
  CHECK(thread.note(0));
  CHECK(thread.note(63));
  CHECK_FALSE(thread.note(Topology::kNoNode));  // a processor that is not known
  CHECK(thread.take().nodes == (kZero | only(63)));
}

TEST_CASE("writers: a sixth of the iterations on a node is work there, a tenth is a visit",
          "[serve]") {
  const auto nodes = [](int iterations) {
    Whereabouts thread;
    for (int i = 0; i < iterations; ++i) {
      thread.note(i == 0 ? 1 : 0);
    }
    return thread.take().nodes;
  };
  CHECK(nodes(6) == (kZero | kOne));
  CHECK(nodes(10) == kZero);
}

TEST_CASE("writers: one move is followed, a thread that roams has its memory spread", "[serve]") {
  Writers writers;
  writers.look(kZero);
  CHECK(writers.settled() == 0);  // one look tells nothing
  writers.look(0);                // nor does one without an iteration
  CHECK(writers.settled() == 0);
  writers.look(kZero);
  CHECK(writers.settled() == kZero);
  writers.look(kZero | kOne);  // it moves in this second
  CHECK(writers.settled() == kZero);
  writers.look(kOne);
  CHECK(writers.settled() == kZero);
  writers.look(kOne);
  CHECK(writers.settled() == kOne);
  for (int i = 0; i < 6; ++i) {
    writers.look(i % 2 == 0 ? kZero : kOne);
    CHECK(writers.settled() == (kZero | kOne));
  }
  for (int i = 0; i < 7; ++i) {  // it stays at last
    CHECK(writers.settled() == (kZero | kOne));
    writers.look(kOne);
  }
  CHECK(writers.settled() == kOne);
  writers.look(kZero);  // a thread that stays for two seconds each time roams, too
  writers.look(kZero);
  CHECK(writers.settled() == kZero);
  writers.look(kOne);
  CHECK(writers.settled() == (kZero | kOne));
}

TEST_CASE("writers: a team on several nodes has its memory spread over them", "[serve]") {
  Writers writers;
  for (int i = 0; i < 3; ++i) {
    CHECK(writers.settled() == 0);
    writers.look(only(2) | only(5));
  }
  CHECK(writers.settled() == (only(2) | only(5)));
}

TEST_CASE(
    "writers: a thread that goes round has its memory on all nodes, though each look finds two",
    "[serve]") {
  Writers writers;
  for (std::uint32_t i = 0; i < 12; ++i) {
    writers.look(only(i % 4) | only((i + 1) % 4));
    CHECK(writers.settled() == (i < 2 ? 0 : kZero | kOne | only(2) | only(3)));
  }
}

TEST_CASE("writers: a team that moves is followed when three looks have found it there",
          "[serve]") {
  Writers writers;
  for (int i = 0; i < 8; ++i) {
    writers.look(kZero | kOne);
  }
  CHECK(writers.settled() == (kZero | kOne));
  for (int i = 0; i < 3; ++i) {
    CHECK((writers.settled() & kZero) != 0);
    writers.look(only(2) | only(3));
  }
  CHECK(writers.settled() == (only(2) | only(3)));
}

}  // namespace
}  // namespace memo
