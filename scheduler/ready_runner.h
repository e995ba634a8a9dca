// A runner that also keeps the list of nodes that can run next, forwards and backwards. Cold, but
// the innermost loop of every search.
#pragma once

#include <span>
#include <vector>

#include "scheduler/index.h"
#include "scheduler/runner.h"

namespace schedule {

class ReadyRunner {
 public:
  explicit ReadyRunner(const Problem& problem)
      : problem_(&problem), runner_(problem), place_(static_cast<std::size_t>(problem.nodes()), 0) {
    list_ready();
  }

  void reset() {
    runner_.reset();
    list_ready();
  }

  const Runner* operator->() const { return &runner_; }

  // All ready nodes, in an order that depends on what was run and taken back alone. Valid until the
  // next change.
  std::span<const NodeId> ready() const { return ready_; }

  void run(NodeId n) {
    runner_.run(n);
    remove(n);
    for (const NodeId succ : problem_->succs[n]) {
      if (runner_.ready(succ)) {
        add(succ);
      }
    }
  }

  // Takes back a node none of whose successors has run.
  void undo(NodeId n) {
    for (const NodeId succ : problem_->succs[n]) {
      if (runner_.ready(succ)) {
        remove(succ);
      }
    }
    runner_.undo(n);
    add(n);
  }

 private:
  void list_ready() {
    ready_.clear();
    for (NodeId n = 0; n < problem_->nodes(); ++n) {
      if (runner_.ready(n)) {
        add(n);
      }
    }
  }
  void add(NodeId n) {
    place_[at(n)] = ready_.size();
    ready_.push_back(n);
  }
  void remove(NodeId n) {
    const std::size_t place = place_[at(n)];
    ready_[place] = ready_.back();
    place_[at(ready_[place])] = place;
    ready_.pop_back();
  }

  const Problem* problem_;
  Runner runner_;
  std::vector<NodeId> ready_;
  std::vector<std::size_t> place_;  // per ready node: where it stands in ready_
};

}  // namespace schedule
