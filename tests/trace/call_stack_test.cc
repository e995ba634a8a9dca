// The walk up the stack: as libunwind's where that is at hand, never out of the bounds; and the
// signatures that are made of it.
#include "src/trace/call_stack.h"
#include "src/base/tuning.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "src/trace/code_location.h"
#include "src/trace/signature.h"
#include "tests/support/guarded.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

constexpr int kMaxFrames = 24;

using Frames = std::vector<const void*>;

struct Walked {
  Frames ours;
  std::vector<std::uint64_t> places;
  Frames theirs;  // libunwind's
};

using Unwind = int (*)(void**, int);

// Null where libunwind is not installed.
Unwind libunwind() {
  void* const library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Unwind>(dlsym(library, "unw_backtrace"));
}

// The frames of this function's callers.
[[gnu::noinline]] Walked walk() {
  const FrameState caller{reinterpret_cast<std::uint64_t>(__builtin_return_address(0)),
                          reinterpret_cast<std::uint64_t>(__builtin_dwarf_cfa()),
                          *static_cast<const std::uint64_t*>(__builtin_frame_address(0))};
  const void* frames[kMaxFrames];
  std::uint64_t places[kMaxFrames];
  const auto count = walk_stack(find_stack_bounds(), caller, frames, places, kMaxFrames);
  Walked walked;
  walked.ours.assign(frames, frames + count);
  walked.places.assign(places, places + count);
  if (const Unwind unwind = libunwind()) {
    void* theirs[kMaxFrames + 1];  // and the place in this function
    const int more = unwind(theirs, kMaxFrames + 1);
    walked.theirs.assign(theirs + std::min(1, more), theirs + more);
  }
  return walked;
}

// Callers of different make.
Walked walk_from_the_c_library() {
  static Walked walked;
  const auto compare = [](const void*, const void*) {
    walked = walk();
    return 0;
  };
  int two[2] = {1, 2};
  qsort(two, 2, sizeof two[0], compare);
  return walked;
}
[[gnu::noinline]] Walked walk_from_a_growing_frame(std::size_t bytes) {
  auto* const grown = static_cast<volatile char*>(alloca(bytes));
  grown[0] = 1;
  Walked walked = walk();
  grown[bytes - 1] = 1;
  return walked;
}
[[gnu::noinline]] Walked walk_from_an_aligned_frame(std::size_t bytes) {
  alignas(128) volatile char aligned[256];
  auto* const grown = static_cast<volatile char*>(alloca(bytes));
  aligned[3] = 1;
  grown[0] = aligned[3];
  Walked walked = walk();
  aligned[5] = grown[0];
  return walked;
}
[[gnu::noinline]] Walked walk_from_below(int depth) {
  Walked walked = depth == 0 ? walk() : walk_from_below(depth - 1);
  asm volatile("" ::: "memory");  // not from the tail
  return walked;
}
Walked walk_while_catching() {
  try {
    throw 1;
  } catch (int) {
    return walk();
  }
}
Walked walk_from_a_thread() {
  Walked walked;
  testing::in_thread([&] { walked = walk_from_a_growing_frame(100); });
  return walked;
}

std::vector<Walked> all_walks() {
  prepare_code_locations();
  return {walk(),
          walk_from_the_c_library(),
          walk_from_a_growing_frame(1000),
          walk_from_an_aligned_frame(1000),
          walk_from_below(3),
          walk_from_below(100),
          walk_while_catching(),
          walk_from_a_thread()};
}

TEST_CASE("call stack: each frame's caller, whatever the frame's make", "[trace]") {
  for (const Walked& walked : all_walks()) {
    CHECK(walked.ours.size() >= 4);
    CHECK(walked.places.size() == walked.ours.size());
    CHECK(std::count(walked.places.begin(), walked.places.end(), 0) == 0);
  }
  CHECK(walk_from_below(100).ours.size() == kMaxFrames);
}

TEST_CASE("call stack: the frames that libunwind finds", "[trace]") {
  if (libunwind() == nullptr) {
    testing::skip("libunwind is not installed");
    return;
  }
  for (const Walked& walked : all_walks()) {
    CHECK(walked.ours == walked.theirs);
  }
}

TEST_CASE("call stack: modules are the same by table and by list", "[trace]") {
  for (const Walked& walked : all_walks()) {
    for (const void* frame : walked.ours) {
      const auto address = reinterpret_cast<std::uint64_t>(frame);
      CodeLocation list;
      CodeLocation table;
      REQUIRE(look_up_in_list(address, list));
      CHECK(list.place == code_location(address).place);
      if (dlsym(RTLD_DEFAULT, "_dl_find_object") != nullptr) {  // glibc 2.35
        REQUIRE(look_up_in_table(address, table));
        CHECK(std::memcmp(&list, &table, sizeof list) == 0);
      }
    }
  }
  CodeLocation none;
  const int here = 0;
  CHECK_FALSE(look_up_in_list(reinterpret_cast<std::uint64_t>(&here), none));
  none.place = 1;
  if (look_up_in_table(reinterpret_cast<std::uint64_t>(&here), none)) {  // glibc 2.35
    CHECK(none.place == 0);
  }
  CHECK(none.place == 0);
}

// Words that a stack may hold: of its own, of code, small, any.
std::uint64_t likely_word(testing::Random& random, const StackBounds& stack, const Frames& code) {
  switch (testing::below(random, 4)) {
    case 0:
      return stack.low - 64 + testing::below(random, stack.high - stack.low + 128);
    case 1: {
      const std::uint64_t shift = testing::below(random, 2) * testing::below(random, 1 << 16);
      return reinterpret_cast<std::uint64_t>(code[testing::below(random, code.size())]) + shift;
    }
    case 2:
      return testing::below(random, 1000);
    default:
      return random();
  }
}

TEST_CASE("call stack: garbage is not followed out of the stack", "[trace]") {
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  testing::Random random(seed);
  Frames code;
  for (const Walked& walked : all_walks()) {
    code.insert(code.end(), walked.ours.begin(), walked.ours.end());
  }
  const testing::GuardedPages pages(1);
  const StackBounds stack{reinterpret_cast<std::uint64_t>(pages.begin()),
                          reinterpret_cast<std::uint64_t>(pages.end())};
  auto* const words = reinterpret_cast<std::uint64_t*>(pages.begin());
  const std::uint64_t count = (stack.high - stack.low) / sizeof *words;
  std::uint64_t longest = 0;
  for (int round = 0; round < 300; ++round) {
    for (std::uint64_t i = 0; i < count; ++i) {
      words[i] = likely_word(random, stack, code);
    }
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t near = testing::below(random, 2) == 0 ? stack.low : stack.high - 256;
      const FrameState start{
          reinterpret_cast<std::uint64_t>(code[testing::below(random, code.size())]),
          near + testing::below(random, 32) * 8 + (i % 8 == 0 ? random() % 8 : 0),
          likely_word(random, stack, code)};
      const void* frames[kMaxFrames];
      std::uint64_t places[kMaxFrames];
      const int found = walk_stack(stack, start, frames, places, kMaxFrames);
      REQUIRE(found >= 1);
      REQUIRE(found <= kMaxFrames);
      longest = std::max(longest, static_cast<std::uint64_t>(found));
    }
  }
  CHECK(longest > 2);  // some went on
  const FrameState outside{reinterpret_cast<std::uint64_t>(code[0]), stack.high + 8, stack.high};
  const void* frames[kMaxFrames];
  std::uint64_t places[kMaxFrames];
  CHECK(walk_stack(stack, outside, frames, places, kMaxFrames) == 0);
}

[[gnu::noinline]] std::uint64_t one_caller(const StackBounds& stack) {
  const std::uint64_t signature = stack_signature(stack);
  asm volatile("" ::: "memory");
  return signature;
}
[[gnu::noinline]] std::uint64_t other_caller(const StackBounds& stack) {
  const std::uint64_t signature = stack_signature(stack);
  asm volatile("nop" ::: "memory");
  return signature;
}

TEST_CASE("signature: names the call stack, where the stack is known", "[trace]") {
  load_unwinder();
  const StackBounds stack = find_stack_bounds();
  REQUIRE(stack.high > stack.low);
  CHECK(stack.room() > 0);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 3; ++i) {
    seen.insert(one_caller(stack));
  }
  CHECK(seen.size() == 1);
  CHECK(seen.count(0) == 0);
  CHECK(seen.count(other_caller(stack)) == 0);
  CHECK(one_caller(stack) != *seen.begin());  // from another line
  CHECK(StackBounds{}.room() == 0);
  CHECK(stack_signature({}) == 0);
  testing::in_thread([&] {
    CHECK(stack.room() == 0);  // another thread's stack
    CHECK(stack_signature(stack) == 0);
    CHECK(find_stack_bounds().room() > 0);
    CHECK(one_caller(find_stack_bounds()) != 0);
  });
}

TEST_CASE("signature: asks for a few pages of stack", "[trace]") {
  load_unwinder();
  const StackBounds stack = find_stack_bounds();
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  CHECK(stack_signature({here - 4500, stack.high}) == 0);
  CHECK(stack_signature({here - 10'500, stack.high}) != 0);
}

TEST_CASE("signature: a stack that nobody tells of is taken to be some MiB deep", "[trace]") {
  rlimit stack{};
  REQUIRE(getrlimit(RLIMIT_STACK, &stack) == 0);
  stack.rlim_cur = 64 << 20;
  if (stack.rlim_max < stack.rlim_cur) {
    testing::skip("stacks of 64 MiB");
    return;
  }
  const int status = testing::status_of_child([&] {
    setrlimit(RLIMIT_STACK, &stack);
    load_unwinder();
    const rlimit none{};
    setrlimit(RLIMIT_NOFILE, &none);  // /proc cannot be read
    const StackBounds guessed = find_stack_bounds();
    return static_cast<int>((guessed.high - guessed.low) >> 20U);
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) >= 5);
  CHECK(WEXITSTATUS(status) <= 6);
}

// A thread whose stack is painted: what is no longer as it was, has been used.
struct Painted {
#ifdef MEMO_DEBUG  // sanitizers make frames larger
  static constexpr std::size_t kOwnFrame = 8192;
#else
  static constexpr std::size_t kOwnFrame = 512;  // bytes, of run()
#endif
  testing::GuardedPages pages{256};  // ThreadSanitizer wants most of it
  std::uint64_t signature = 0;
  unsigned char* frame = nullptr;

  static void* run(void* data) {
    Painted& own = *static_cast<Painted*>(data);
    const StackBounds stack = find_stack_bounds();
    own.frame = static_cast<unsigned char*>(__builtin_frame_address(0));
    std::memset(own.pages.begin(), 0xA5,
                static_cast<std::size_t>(own.frame - own.pages.begin()) - kOwnFrame);
    own.signature = stack_signature(stack);
    return nullptr;
  }
};

TEST_CASE("signature: takes no more stack than half of what it asks for", "[trace]") {
  load_unwinder();
  Painted painted;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstack(
              &attributes, painted.pages.begin(),
              static_cast<std::size_t>(painted.pages.end() - painted.pages.begin())) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, Painted::run, &painted) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  CHECK(painted.signature != 0);
  const auto* const lowest = std::find_if(painted.pages.begin(), painted.pages.end(),
                                          [](unsigned char byte) { return byte != 0xA5; });
  const auto used = static_cast<std::uint64_t>(painted.frame - lowest);
  INFO(used << " bytes of stack");
#ifndef MEMO_DEBUG
  CHECK(used <= tuning::kUnwindStack / 2);
#endif
}

}  // namespace
}  // namespace memo
