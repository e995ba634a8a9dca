// Plays an order forwards and backwards, one node at a time, and tells the memory alive. The set of
// nodes run so far is always closed under predecessors. Cold, but the innermost loop of every
// search.
#pragma once

#include <algorithm>
#include <vector>

#include "scheduler/index.h"
#include "scheduler/problem.h"

namespace schedule {

class Runner {
 public:
  explicit Runner(const Problem& problem) : problem_(&problem) { reset(); }

  // Back to the state in which nothing has run.
  void reset() {
    const Problem& p = *problem_;
    const auto nodes = static_cast<std::size_t>(p.nodes());
    waiting_.resize(nodes);
    done_.assign(nodes, 0);
    for (std::size_t n = 0; n < nodes; ++n) {
      waiting_[n] = static_cast<std::int32_t>(p.preds[static_cast<NodeId>(n)].size());
    }
    left_.resize(p.storages.size());
    level_ = p.base;
    for (std::size_t s = 0; s < left_.size(); ++s) {
      left_[s] = static_cast<std::int32_t>(p.readers[static_cast<StorageId>(s)].size());
      if (p.storages[s].producer == kNoNode) {
        level_ += p.storages[s].bytes;
      }
    }
  }

  Bytes level() const { return level_; }  // bytes alive between two nodes
  bool done(NodeId n) const { return done_[at(n)] != 0; }
  bool ready(NodeId n) const { return waiting_[at(n)] == 0 && !done(n); }

  // Bytes alive while the ready node n runs, without and with savings by overwriting.
  Bytes while_running_plain(NodeId n) const {
    Bytes bytes = level_ + problem_->workspace[at(n)];
    for (const StorageId s : problem_->makes[n]) {
      bytes += problem_->storage(s).bytes;
    }
    return bytes;
  }
  Bytes while_running(NodeId n) const {
    Bytes saved = 0;
    for (const Saving& saving : problem_->savings[at(n)]) {
      if (left_[at(saving.input)] == 1) {
        saved = std::max(saved, saving.bytes);
      }
    }
    return while_running_plain(n) - saved;
  }

  // By how much running the ready node n changes the level. Never grows as other nodes run.
  Bytes change(NodeId n) const {
    Bytes bytes = 0;
    for (const StorageId s : problem_->makes[n]) {
      if (left_[at(s)] > 0 || problem_->storage(s).kept) {
        bytes += problem_->storage(s).bytes;
      }
    }
    for (const StorageId s : problem_->reads[n]) {
      if (left_[at(s)] == 1 && !problem_->storage(s).kept) {
        bytes -= problem_->storage(s).bytes;
      }
    }
    return bytes;
  }

  void run(NodeId n) {
    level_ += change(n);
    done_[at(n)] = 1;
    for (const StorageId s : problem_->reads[n]) {
      --left_[at(s)];
    }
    for (const NodeId succ : problem_->succs[n]) {
      --waiting_[at(succ)];
    }
  }

  // Takes back a node none of whose successors has run.
  void undo(NodeId n) {
    done_[at(n)] = 0;
    for (const StorageId s : problem_->reads[n]) {
      ++left_[at(s)];
    }
    for (const NodeId succ : problem_->succs[n]) {
      ++waiting_[at(succ)];
    }
    level_ -= change(n);
  }

  std::int32_t readers_left(StorageId s) const { return left_[at(s)]; }

 private:
  const Problem* problem_;
  std::vector<std::int32_t> waiting_;  // per node: predecessors that have not run
  std::vector<std::int32_t> left_;     // per storage: readers that have not run
  std::vector<char> done_;             // per node
  Bytes level_ = 0;
};

// The most bytes alive at one node; requires a topological order.
inline Bytes peak_of(const Problem& problem, const Order& order) {
  Runner runner(problem);
  Bytes peak = runner.level();
  for (const NodeId node : order) {
    peak = std::max(peak, runner.while_running(node));
    runner.run(node);
  }
  return peak;
}

}  // namespace schedule
