// Arenas and pools with books, and a space, of their own. For tests only.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>

#include "src/serve/arena.h"
#include "src/serve/pool.h"
#include "tests/support/spaces.h"

namespace memo::testing {

// An arena that gives back what its pool would have it give back. All of a block counts as written
// unless look() was called.
class OwnArena : public Arena {
 public:
  void open(Space* space, bool huge = false) {
    books_.looks = false;
    Arena::open(space, &books_, huge);
  }
  void look() { books_.looks = true; }
  [[nodiscard]] const HeldMemory& held() const { return books_.held; }
  std::uint64_t trim(std::uint64_t bytes = kAll) {
    return Arena::trim(books_.held.forget(), bytes);
  }
  std::uint64_t trim(std::uint64_t bytes, std::uint64_t less) {
    return Arena::trim(books_.held.forget(granules_in(less)), bytes);
  }
  std::uint64_t age(std::uint64_t bytes = kAll) { return Arena::trim(books_.held.age(), bytes); }
  std::uint64_t settle(std::uint64_t bytes = kAll) {
    return Arena::trim(std::min(books_.held.excess(), granules_in(bytes)));
  }
  [[nodiscard]] bool valid() {
    PageMap::Sums sums;
    return Arena::valid(sums) && sums.used == held().live() && sums.dirty == held().dirty();
  }

 private:
  ArenaBooks books_;
};

// A pool of one arena.
class OwnPool : public Pool {
 public:
  explicit OwnPool(Space* space) { open({&part_, 1}, space, false); }

 private:
  Part part_;
};

struct ArenaFixture {
  OwnSpace own{256 << 20};
  Space& space = own.space;
  OwnArena arena;
  explicit ArenaFixture(bool huge_pages = false) { arena.open(&space, huge_pages); }

  // A block whose bytes are all written; REQUIREs that it is there.
  char* take(std::uint64_t bytes, std::uint64_t alignment = 16) {
    const Arena::Block block = arena.allocate(bytes, alignment);
    REQUIRE(block.start != nullptr);
    std::memset(block.start, 1, bytes);
    return static_cast<char*>(block.start);
  }
  // Bytes from the space's start to the end of its last block.
  [[nodiscard]] std::uint64_t end_of_blocks() const {
    return bytes_of(
        space.pages.tail(PageMap::Tail::kClean, 0_g, granules_in(space.committed_bytes())));
  }
  [[nodiscard]] std::uint64_t resident() const { return resident_bytes(space.base(), 128 << 20); }
};

}  // namespace memo::testing
