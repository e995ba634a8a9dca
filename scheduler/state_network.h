// The states in which a node can run, as a network whose cuts are those states. Cold.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/deadline.h"
#include "scheduler/min_cut.h"
#include "scheduler/problem.h"

namespace schedule {

// The least memory that is alive while a node runs, whatever the order.
struct CheapestState {
  Bytes while_running = 0;   // a lower bound on every order's peak
  std::vector<bool> before;  // smallest set of nodes that has run in such a state, without the node
  std::vector<bool> before_largest;  // the largest such set
};

// The source stands for what has surely run, the sink for what surely has not.
class StateNetwork {
 public:
  // Per node: `earlier` must run before `node`; `later` must not, `node` itself included. Both are
  // closed under the problem's precedence.
  StateNetwork(const Problem& problem, NodeId node, const std::vector<bool>& earlier,
               const std::vector<bool>& later);

  // The cheapest of them; none if the time is up before. Once.
  std::optional<CheapestState> solve(const Deadline& deadline);

  // After solve(): the least that is alive while the node runs if the other one, which is neither
  // earlier nor later, has run by then, or has not.
  std::optional<Bytes> least_if(NodeId other, bool has_run, const Deadline& deadline);

 private:
  static constexpr FlowNetwork::Vertex kSource = 0;
  static constexpr FlowNetwork::Vertex kSink = 1;

  void add_storage(const Problem& problem, StorageId s);

  FlowNetwork network_;
  FlowNetwork probe_{0};
  std::vector<FlowNetwork::Vertex> vertex_;  // per node
  Bytes always_ = 0;  // alive in every state in which the node can run, and what it needs itself
  Bytes least_ = 0;
};

}  // namespace schedule
