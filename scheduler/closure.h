// Moves that cost nothing: nodes, or small groups of nodes, that some best order runs right away.
// Cold.
#pragma once

#include <vector>

#include "scheduler/deadline.h"
#include "scheduler/ready_runner.h"

namespace schedule {

// Drives a runner through every move of which it is certain, under a limit on the peak.
// Source: scheduler/README.md, exchange argument: a set of ready nodes that can be run under the
// limit and ends at its lowest level, not above the present one, can be moved in front of
// everything else.
class Closure {
 public:
  Closure(const Problem& problem, const Deadline& deadline)
      : problem_(problem), deadline_(deadline) {}

  // Runs all certain moves and appends their nodes to `path`; once the time is up, only some.
  void close(ReadyRunner& runner, Bytes limit, std::vector<NodeId>& path);

  // The same with single nodes only: one look at each ready node a round.
  bool close_single(ReadyRunner& runner, Bytes limit, std::vector<NodeId>& path);

 private:
  bool close_group(ReadyRunner& runner, Bytes limit, std::vector<NodeId>& path);
  bool descend(ReadyRunner& runner, Bytes limit, Bytes start, std::vector<NodeId>& group);
  bool lowest_at_end(ReadyRunner& runner, const std::vector<NodeId>& group);

  const Problem& problem_;
  Deadline deadline_;
  std::vector<NodeId> candidates_;
};

}  // namespace schedule
