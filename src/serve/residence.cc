#include "src/serve/residence.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "src/base/bits.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

constexpr std::uint64_t kStripe = os::kHugePage;
constexpr std::size_t kBatch = 512;  // pages of one call: 8 KiB of stack

}  // namespace

std::uint32_t Residence::node_for(std::uint64_t address, NodeSet nodes) {
  const auto turns = static_cast<std::uint64_t>(std::popcount(nodes));
  for (std::uint64_t turn = address / kStripe % turns; turn != 0; --turn) {
    nodes &= nodes - 1;
  }
  return static_cast<std::uint32_t>(std::countr_zero(nodes));
}

bool Residence::lies_wrong(const NodeBytes& found, NodeSet nodes) {
  const std::uint64_t all = std::accumulate(found.on, found.on + kMaxNodes, std::uint64_t{0});
  const auto turns = static_cast<std::uint64_t>(std::popcount(nodes));
  std::uint64_t elsewhere = 0;
  bool uneven = false;
  for (std::uint32_t node = 0; node < kMaxNodes; ++node) {
    if ((nodes & only(node)) == 0) {
      elsewhere += found.on[node];
    } else {
      uneven = uneven || found.on[node] * turns * 2 < all;
    }
  }
  return elsewhere * tuning::kStrayShare > all || uneven;
}

// Asks where every step-th byte's page lies, and calls function(pages, nodes, count) for some at a
// time. False where the system refuses to tell.
template <typename Function>
bool Residence::ask(char* start, std::uint64_t bytes, std::uint64_t step,
                    Function&& function) const {
  void* pages[kBatch];
  int found[kBatch];
  char* const end = start + bytes;
  while (start < end) {
    std::size_t count = 0;
    for (; count < kBatch && start < end; ++count) {
      pages[count] = start;
      start += std::min<std::uint64_t>(step, static_cast<std::uint64_t>(end - start));
    }
    if (!calls_.page_nodes(pages, count, nullptr, found)) {
      return false;
    }
    function(pages, found, count);
  }
  return true;
}

Residence::Moved Residence::move(char* start, std::uint64_t bytes, NodeSet nodes) const {
  const std::uint64_t page = os::page_size();
  start -= reinterpret_cast<std::uint64_t>(start) % page;
  const auto belongs = [nodes](const void* at) {
    return static_cast<int>(node_for(reinterpret_cast<std::uint64_t>(at), nodes));
  };
  Moved moved;
  std::uint64_t right = 0;
  std::uint64_t wrong = 0;
  // No multiple of a stripe, so that each stripe's turn comes.
  const std::uint64_t step = (bytes / tuning::kLooksAtNodes / page | 1U) * page;
  moved.refused =
      !ask(start, bytes, step, [&](void* const* pages, const int* found, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
          right += found[i] == belongs(pages[i]) ? 1U : 0U;
          wrong += found[i] >= 0 && found[i] != belongs(pages[i]) ? 1U : 0U;
        }
      });
  moved.strays = !moved.refused && wrong * tuning::kStrayShare > right + wrong;
  if (!moved.strays) {
    return moved;
  }
  const bool told = ask(start, bytes, page, [&](void** pages, int* found, std::size_t count) {
    int to[kBatch];
    std::size_t strays = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (found[i] >= 0 && found[i] != belongs(pages[i])) {
        to[strays] = belongs(pages[i]);
        pages[strays++] = pages[i];
      }
    }
    if (strays == 0) {
      return;
    }
    // The answer to a move tells only one page of a huge one where it is now.
    moved.refused = moved.refused || !calls_.page_nodes(pages, strays, to, found) ||
                    !calls_.page_nodes(pages, strays, nullptr, found);
    for (std::size_t i = 0; i < strays && !moved.refused; ++i) {
      moved.bytes += found[i] == to[i] ? page : 0;
    }
  });
  moved.refused = moved.refused || !told;
  return moved;
}

bool Residence::count(char* start, std::uint64_t bytes, NodeBytes& found_bytes) const {
  const std::uint64_t page = os::page_size();
  start -= reinterpret_cast<std::uint64_t>(start) % page;
  return ask(start, bytes, page, [&](void* const*, const int* found, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (found[i] >= 0 && found[i] < static_cast<int>(kMaxNodes)) {
        found_bytes.on[found[i]] += page;
      }
    }
  });
}

bool Residence::make_ready(char* start, std::uint64_t bytes, NodeSet nodes) const {
  const std::uint64_t page = os::page_size();
  const auto first = reinterpret_cast<std::uint64_t>(start);
  const std::uint64_t from = round_up(first, page);
  const std::uint64_t to = round_down(first + bytes, page);
  return from >= to || (calls_.bind(topology_, node_for(first, nodes)) &&
                        calls_.populate(reinterpret_cast<void*>(from), to - from));
}

}  // namespace memo
