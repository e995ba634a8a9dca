// Moves that cost nothing: nodes, or small groups of nodes, that some best order runs right away.
// Cold.
#pragma once

#include <vector>

#include "scheduler/runner.h"

namespace schedule {

// Drives a runner through every move of which it is certain, under a limit on the peak.
// Source: scheduler/README.md, exchange argument: a set of ready nodes that can be run under the
// limit and ends at its lowest level, not above the present one, can be moved in front of
// everything else.
class Closure {
 public:
  explicit Closure(const Problem& problem) : problem_(problem) {}

  // Runs all certain moves and appends their nodes to `path`. `ready` holds exactly the ready
  // nodes, before and after.
  void close(Runner& runner, Bytes limit, std::vector<NodeId>& ready, std::vector<NodeId>& path);

 private:
  void run(Runner& runner, NodeId n, std::vector<NodeId>& ready, std::vector<NodeId>& path);
  bool close_single(Runner& runner, Bytes limit, std::vector<NodeId>& ready,
                    std::vector<NodeId>& path);
  bool close_group(Runner& runner, Bytes limit, std::vector<NodeId>& ready,
                   std::vector<NodeId>& path);
  bool descend(Runner& runner, Bytes limit, Bytes start, std::vector<NodeId>& group);
  bool lowest_at_end(Runner& runner, const std::vector<NodeId>& group);

  const Problem& problem_;
  std::vector<NodeId> candidates_;
};

}  // namespace schedule
