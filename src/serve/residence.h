// Brings memory to the nodes on which it is to lie: a part on one node, or in stripes over several.
// Its pages are moved with what they hold; where the system refuses that, as in containers, free
// memory is given back and made ready again by a thread that is bound to the node. The one place that
// decides which page belongs on which node. For a background thread, which may take milliseconds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/nodes.h"
#include "src/base/os.h"

namespace memo {

// What is asked of the system; tests pretend one.
struct NodeCalls {
  bool (*page_nodes)(void* const* pages, std::size_t count, const int* to,
                     int* found) = os::page_nodes;
  bool (*bind)(const Topology& topology, std::uint32_t node) = os::bind_to_node;
  bool (*populate)(void* start, std::uint64_t bytes) = os::populate;
};

class Residence {
 public:
  Residence(const Topology& topology, const NodeCalls& calls)
      : topology_(topology), calls_(calls) {}

  // Where the page at `address` belongs in memory that is to lie on `nodes`, not empty: whole huge
  // pages in turn, so that none is split.
  static std::uint32_t node_for(std::uint64_t address, NodeSet nodes);

  // True if memory that is to lie on `nodes`, and was counted so, does not: on a node that is none of
  // them, or on one by far more than on another.
  static bool lies_wrong(const NodeBytes& found, NodeSet nodes);

  struct Moved {
    bool refused = false;     // the system does not let pages be asked for or moved
    bool strays = false;      // many pages lay wrong
    std::uint64_t bytes = 0;  // that lie right now and did not before
  };
  // Looks at some pages of [start, start + bytes), and where many of them lie wrong, moves all that do.
  [[nodiscard]] Moved move(char* start, std::uint64_t bytes, NodeSet nodes) const;
  // Adds where the pages of the range lie; false where the system refuses to tell.
  bool count(char* start, std::uint64_t bytes, NodeBytes& found) const;
  // Gives memory to [start, start + bytes), which lies in one stripe and has none, on the node where
  // it belongs. The calling thread is bound to that node from then on. False where that is refused.
  [[nodiscard]] bool make_ready(char* start, std::uint64_t bytes, NodeSet nodes) const;

 private:
  template <typename Function>
  bool ask(char* start, std::uint64_t bytes, std::uint64_t step, Function&& function) const;

  const Topology& topology_;
  const NodeCalls& calls_;
};

}  // namespace memo
