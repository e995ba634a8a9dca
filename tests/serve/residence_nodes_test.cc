// Memory is brought to nodes that are pretended: which pages are moved, or made anew.
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "src/serve/lasting.h"
#include "src/serve/remaking.h"
#include "src/serve/residence.h"
#include "tests/support/spaces.h"

namespace memo {
namespace {

constexpr NodeSet kBoth = only(0) | only(1);

// A kernel of two nodes. A page is where it was touched: on node `touched_on`, or by make_ready() on the
// one that the thread is bound to.
struct Kernel {
  std::map<std::uint64_t, int> places;
  int touched_on = 0;
  int bound_to = -1;
  bool tells = true, moves = true, binds = true;
  bool stuck = false;  // a move is answered, and nothing moves
  std::uint64_t asked = 0;
  std::uint64_t moved = 0;
  std::vector<std::pair<char*, std::uint64_t>> populated;
};
Kernel kernel;

bool page_nodes(void* const* pages, std::size_t count, const int* to, int* found) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<std::uint64_t>(pages[i]);
    if (!kernel.tells || (to != nullptr && !kernel.moves)) {
      return false;
    }
    if (os::resident_bytes(pages[i], os::page_size()) == 0) {
      found[i] = -ENOENT;
      kernel.places.erase(address);
      continue;
    }
    auto& place = kernel.places.try_emplace(address, kernel.touched_on).first->second;
    if (to != nullptr && !kernel.stuck) {
      CHECK(place != to[i]);  // what lies right is not moved
      place = to[i];
      ++kernel.moved;
    }
    kernel.asked += to == nullptr ? 1U : 0U;
    found[i] = place;
  }
  return true;
}

bool bind(const Topology&, std::uint32_t node) {
  kernel.bound_to = static_cast<int>(node);
  return kernel.binds;
}

bool populate(void* start, std::uint64_t bytes) {
  kernel.populated.emplace_back(static_cast<char*>(start), bytes);
  for (std::uint64_t at = 0; at < bytes; at += os::page_size()) {
    kernel.places[reinterpret_cast<std::uint64_t>(start) + at] = kernel.bound_to;
  }
  return os::populate(start, bytes) || (std::memset(start, 0, bytes), true);
}

struct NodesFixture {
  testing::OwnSpace own{64 << 20};
  testing::OwnSpace pooled{64 << 20};
  Pool pool;
  SlabBooks books;
  Slab slab;
  Topology topology;
  NodeCalls calls{page_nodes, bind, populate};
  Residence residence{topology, calls};

  NodesFixture() {
    kernel = {};
    books.limit = 64 << 20;
    books.huge_pages = Choice::kNever;
    pool.open(&pooled.space, false);
    slab.open(&own.space, &books, &pool, 0);
  }
  char* touched(std::uint64_t bytes) {
    REQUIRE(slab.raise(bytes, false) != Slab::Raised::kRefused);
    os::advise_huge(slab.at(0), bytes, false);
    std::memset(slab.at(0), 1, bytes);
    return slab.at(0);
  }
  // Pages of [start, start + bytes) that lie wrong.
  static std::uint64_t strays(char* start, std::uint64_t bytes, NodeSet nodes) {
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at < bytes; at += os::page_size()) {
      const auto address = reinterpret_cast<std::uint64_t>(start) + at;
      const auto found = kernel.places.find(address);
      const int place = found == kernel.places.end() ? kernel.touched_on : found->second;
      count += place == static_cast<int>(Residence::node_for(address, nodes)) ? 0U : 1U;
    }
    return count;
  }
};

TEST_CASE("residence: memory for several nodes comes in turns of whole huge pages", "[serve]") {
  const NodeSet nodes = only(1) | only(4) | only(63);
  std::array<int, kMaxNodes> seen{};
  for (std::uint64_t i = 0; i < 9; ++i) {
    const std::uint64_t stripe = (1000 + i) * os::kHugePage;
    ++seen[Residence::node_for(stripe, nodes)];
    CHECK(Residence::node_for(stripe, nodes) ==
          Residence::node_for(stripe + os::kHugePage - 1, nodes));
    CHECK(Residence::node_for(stripe, only(4)) == 4);
  }
  CHECK(seen[1] == 3);
  CHECK(seen[4] == 3);
  CHECK(seen[63] == 3);
}

TEST_CASE("residence: what was counted lies right or wrong", "[serve]") {
  NodeBytes found;
  CHECK_FALSE(Residence::lies_wrong(found, only(0)));  // there is none
  found.on[0] = 95;
  found.on[1] = 5;
  CHECK_FALSE(Residence::lies_wrong(found, only(0)));
  CHECK(Residence::lies_wrong(found, only(1)));
  CHECK(Residence::lies_wrong(found, kBoth));
  found.on[1] = 60;
  CHECK(Residence::lies_wrong(found, only(0)));
  CHECK_FALSE(Residence::lies_wrong(found, kBoth));
  CHECK(Residence::lies_wrong(found, kBoth | only(2)));
  found.on[3] = 40;
  CHECK(Residence::lies_wrong(found, kBoth));
}

TEST_CASE_METHOD(NodesFixture, "residence: pages are moved where they belong, with what they hold",
                 "[serve]") {
  char* start = touched(9 * kMiB);
  const NodeSet nodes = GENERATE(only(1), kBoth);
  const Residence::Moved moved = residence.move(start, 9 * kMiB, nodes);
  CHECK_FALSE(moved.refused);
  CHECK(moved.strays);
  CHECK(strays(start, 9 * kMiB, nodes) == 0);
  CHECK(moved.bytes == kernel.moved * os::page_size());
  CHECK(start[9 * kMiB - 1] == 1);
  NodeBytes found;
  CHECK(residence.count(start, 9 * kMiB, found));
  CHECK(found.on[0] + found.on[1] == 9 * kMiB);
  CHECK(found.on[1] == moved.bytes);
}

TEST_CASE_METHOD(NodesFixture, "residence: memory that lies right is left alone", "[serve]") {
  char* start = touched(16 * kMiB);
  CHECK_FALSE(residence.move(start, 16 * kMiB, only(0)).strays);
  CHECK(kernel.asked >= 50);
  CHECK(kernel.asked <= 100);
  // Some that lie wrong, as those that could not be moved just then.
  for (std::uint64_t i = 0; i < 16 * kMiB / os::page_size(); i += 23) {
    kernel.places[reinterpret_cast<std::uint64_t>(start) + i * os::page_size()] = 1;
  }
  CHECK_FALSE(residence.move(start, 16 * kMiB, only(0)).strays);
  CHECK(kernel.moved == 0);
  // What has no memory gets none.
  REQUIRE(os::purge(start, 16 * kMiB));
  CHECK_FALSE(residence.move(start, 16 * kMiB, only(1)).strays);
  CHECK(os::resident_bytes(start, kMiB) == 0);
}

TEST_CASE("residence: a sixth of memory elsewhere lies wrong, a tenth does not", "[serve]") {
  NodeBytes found;
  found.on[0] = 5 * kMiB;
  found.on[1] = kMiB;
  CHECK(Residence::lies_wrong(found, only(0)));
  found.on[0] = 9 * kMiB;
  CHECK_FALSE(Residence::lies_wrong(found, only(0)));
}

TEST_CASE_METHOD(NodesFixture, "residence: a refusal is told", "[serve]") {
  char* start = touched(4 * kMiB);
  SECTION("to ask") {
    kernel.tells = false;
    NodeBytes found;
    CHECK_FALSE(residence.count(start, 4 * kMiB, found));
  }
  SECTION("to move") {
    kernel.moves = false;
  }
  const Residence::Moved moved = residence.move(start, 4 * kMiB, only(1));
  CHECK(moved.refused);
  CHECK(moved.bytes == 0);
}

TEST_CASE_METHOD(NodesFixture, "residence: what cannot be moved is told", "[serve]") {
  kernel.stuck = true;
  const Residence::Moved moved = residence.move(touched(4 * kMiB), 4 * kMiB, only(1));
  CHECK(moved.strays);
  CHECK(moved.bytes == 0);
}

// All rounds, as the background thread goes.
void go_round(Remaking& remaking, const Slab& slab) {
  for (std::uint64_t at = 0; at < slab.height(); at += Remaking::kStripe) {
    CHECK(remaking.take(slab, at));
    remaking.make_ready();
  }
}

TEST_CASE_METHOD(NodesFixture, "remaking: what is in use stays, and comes when it is free",
                 "[serve]") {
  char* start = touched(8 * kMiB);
  REQUIRE(slab.claim(kMiB, 3 * kMiB, 16).answer == SlabPlace::Answer::kGranted);
  kernel.touched_on = 0;
  Remaking remaking(residence, only(1), slab.height());
  go_round(remaking, slab);
  CHECK_FALSE(remaking.finished());
  CHECK(remaking.bytes() == 5 * kMiB);
  CHECK(start[kMiB] == 1);
  CHECK(start[0] == 0);
  CHECK(slab.claim(0, kMiB, 16).dirty == false);  // it may be handed out as zero
  CHECK(slab.space().pages.release(0_g) != 0_g);
  CHECK(strays(start, kMiB, only(1)) == 0);
  CHECK(strays(start + kMiB, 3 * kMiB, only(1)) == 3 * kMiB / os::page_size());
  CHECK(slab.space().pages.release(slab.space().granule_of(start + kMiB)) != 0_g);
  go_round(remaking, slab);
  CHECK(remaking.finished());
  CHECK(remaking.bytes() == 8 * kMiB);
  CHECK(strays(start, 8 * kMiB, only(1)) == 0);
  CHECK(slab.valid());
}

TEST_CASE_METHOD(NodesFixture, "remaking: each stripe is made ready by a thread on its node",
                 "[serve]") {
  char* start = touched(8 * kMiB);
  Remaking remaking(residence, kBoth, slab.height());
  go_round(remaking, slab);
  CHECK(remaking.finished());
  CHECK(strays(start, 8 * kMiB, kBoth) == 0);
  CHECK(kernel.populated.size() == 4);
}

TEST_CASE_METHOD(NodesFixture, "remaking: what had no memory gets none", "[serve]") {
  touched(8 * kMiB);
  REQUIRE(os::purge(slab.at(2 * kMiB), 4 * kMiB));
  Remaking remaking(residence, only(1), slab.height());
  go_round(remaking, slab);
  CHECK(remaking.finished());
  CHECK(remaking.bytes() == 4 * kMiB);
  CHECK(os::resident_bytes(slab.at(3 * kMiB), kMiB) == 0);
}

TEST_CASE_METHOD(NodesFixture, "remaking: a slab that got lower is let go, a refusal ends it",
                 "[serve]") {
  touched(8 * kMiB);
  Remaking remaking(residence, only(1), slab.height());
  SECTION("lower") {
    slab.lower(4 * kMiB);
    CHECK_FALSE(remaking.take(slab, 0));
    CHECK(kernel.populated.empty());
  }
  SECTION("refused") {
    kernel.binds = false;
    go_round(remaking, slab);
    CHECK(remaking.refused());
    CHECK(remaking.finished());
    CHECK(remaking.bytes() == 0);
    CHECK(kernel.populated.empty());
  }
}

TEST_CASE_METHOD(NodesFixture, "lasting: what lasts is listed, row by row", "[serve]") {
  std::vector<char*> blocks;
  for (int i = 0; i < 400; ++i) {
    blocks.push_back(static_cast<char*>(pool.allocate(64 << 10, 16, 0).start));
    REQUIRE(blocks.back() != nullptr);
  }
  Granules at;
  while (LastingBlocks(pool).mark(at)) {
  }
  for (std::size_t i = 0; i < blocks.size(); i += 4) {
    pool.free(blocks[i], false);
  }
  LastingBlocks::List list;
  Granules granules;
  std::uint32_t rows = 0;
  at = 0_g;
  for (bool more = true; more;) {
    more = LastingBlocks(pool).list(at, list);
    for (std::uint32_t i = 0; i < list.count; ++i, ++rows) {
      granules += list.runs[i].count;
    }
  }
  CHECK(rows == 100);
  CHECK(granules == granules_in(300 * (64ULL << 10)));
}

}  // namespace
}  // namespace memo
