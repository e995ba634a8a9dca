// An arena with a space of its own. For tests only.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>

#include "src/serve/arena.h"
#include "tests/support/spaces.h"

namespace memo::testing {

struct ArenaFixture {
  OwnSpace own{256 << 20};
  Space& space = own.space;
  Arena arena;
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
