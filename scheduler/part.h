// Cuts parts out of a problem along an order, from left to right. Cold.
#pragma once

#include <vector>

#include "scheduler/incumbent.h"
#include "scheduler/runner.h"

namespace schedule {

class PartMaker {
 public:
  explicit PartMaker(const Problem& problem);

  // The part order[begin, end) of the problem whose other nodes keep their places. The part's node
  // i is order[begin + i]; storages alive across its borders become kept, unproduced or base.
  // `begin` must not be below an earlier call's, nor may the set order[0, that begin) have changed
  // since. O(nodes run since the last call + edges of the part).
  Problem cut(const Order& order, std::size_t begin, std::size_t end);

  std::size_t position() const { return position_; }  // the last call's `begin`

 private:
  StorageId translate(StorageId s, Problem& part);

  const Problem& problem_;
  Runner runner_;
  std::size_t position_ = 0;
  std::vector<NodeId> local_;             // per node: its index in the part; kNoNode outside
  std::vector<StorageId> local_storage_;  // per storage, -1 outside
  std::vector<StorageId> touched_;        // storages whose local_storage_ is set
};

// Nodes 0, 1, ...: the order of the graph, and that in which a part was cut.
Order given_order(const Problem& problem);

// Puts what a part's incumbent has found in the place of order[begin, ...).
void put_back(const Incumbent& part, Order& order, std::size_t begin);

}  // namespace schedule
