// An in-tree's order is a list of segments: groups of nodes that run without a break, sorted so
// that lists of independent trees merge into the best order of both.
#include "scheduler/linearize.h"

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/index.h"

namespace schedule {
namespace {

struct Segment {
  Bytes hill;  // most bytes over the level before it
  Bytes net;   // by which it changes the level
  NodeId first, last;

  // Of two segments that are free to run in either order, this one is better first: what lowers the
  // level before what raises it, low hills before high ones, and the mirror image behind.
  bool operator<(const Segment& other) const {
    if ((net <= 0) != (other.net <= 0)) {
      return net <= 0;
    }
    return net <= 0 ? hill < other.hill : hill - net > other.hill - other.net;
  }
};

class Linearizer {
 public:
  explicit Linearizer(Problem& problem)
      : problem_(problem), next_(at(problem.nodes()), kNoNode), trees_(at(problem.nodes())) {}

  void run() {
    const Order order = any_order(problem_);
    std::vector<bool> closed(order.size());  // per node: it and all before it are a tree
    for (const NodeId n : order) {
      closed[at(n)] =
          frees_what_it_reads(n) && std::ranges::all_of(problem_.preds[n], [&](NodeId pred) {
            return closed[at(pred)] && problem_.succs[pred].size() == 1;
          });
      if (closed[at(n)]) {
        grow(n);
      }
    }
    // Trees with the same successors are as independent as subtrees of one root.
    std::map<std::vector<NodeId>, Tree> groups;
    for (const NodeId n : order) {
      const auto succs = problem_.succs[n];
      const bool inner = succs.size() == 1 && closed[at(succs.front())];
      if (closed[at(n)] && !inner) {
        merge(groups[{succs.begin(), succs.end()}], trees_[at(n)]);
      }
    }
    for (const auto& [succs, tree] : groups) {
      chain(tree);
    }
    add_precedence();
  }

 private:
  using Tree = std::multiset<Segment>;

  bool frees_what_it_reads(NodeId n) const {
    return std::ranges::all_of(problem_.reads[n], [&](StorageId s) {
      return problem_.storage(s).kept || problem_.readers[s].size() == 1;
    });
  }

  // The tree of a node from those of its predecessors, which it runs after.
  void grow(NodeId n) {
    Tree& mine = trees_[at(n)];
    for (const NodeId pred : problem_.preds[n]) {
      merge(mine, trees_[at(pred)]);
    }
    Segment tail = alone(n);
    while (!mine.empty() &&
           tail < *mine.rbegin()) {  // better first, but must not: no break between
      const Segment before = *mine.rbegin();
      mine.erase(std::prev(mine.end()));
      next_[at(before.last)] = tail.first;
      tail = {std::max(before.hill, before.net + tail.hill), before.net + tail.net, before.first,
              tail.last};
    }
    mine.insert(tail);
  }

  Segment alone(NodeId n) const {
    Segment segment{problem_.workspace[at(n)], 0, n, n};
    for (const StorageId s : problem_.makes[n]) {
      const Bytes bytes = problem_.storage(s).bytes;
      segment.hill += bytes;
      segment.net += problem_.storage(s).kept || !problem_.readers[s].empty() ? bytes : 0;
    }
    Bytes saved = 0;
    for (const Saving& saving : problem_.savings[at(n)]) {
      saved = std::max(saved, saving.bytes);
    }
    segment.hill -= saved;
    for (const StorageId s : problem_.reads[n]) {
      segment.net -= problem_.storage(s).kept ? 0 : problem_.storage(s).bytes;
    }
    return segment;
  }

  // Equal segments of one tree keep their order: each is inserted behind its equals.
  static void merge(Tree& into, Tree& from) {
    if (into.size() < from.size()) {
      std::swap(into, from);
    }
    into.insert(from.begin(), from.end());
    from.clear();
  }

  // Joins a list's segments by next_.
  void chain(const Tree& tree) {
    NodeId last = kNoNode;
    for (const Segment& segment : tree) {
      if (last != kNoNode) {
        next_[at(last)] = segment.first;
      }
      last = segment.last;
    }
  }

  void add_precedence() {
    std::vector<NodeId> before(next_.size(), kNoNode);
    for (NodeId n = 0; n < problem_.nodes(); ++n) {
      if (next_[at(n)] != kNoNode) {
        before[at(next_[at(n)])] = n;
      }
    }
    Lists preds;
    for (NodeId n = 0; n < problem_.nodes(); ++n) {
      std::vector<NodeId> mine(problem_.preds[n].begin(), problem_.preds[n].end());
      if (before[at(n)] != kNoNode && std::ranges::count(mine, before[at(n)]) == 0) {
        mine.push_back(before[at(n)]);
      }
      preds.push(mine);
    }
    problem_.preds = std::move(preds);
    problem_.succs = inverse(problem_.preds, problem_.nodes());
  }

  Problem& problem_;
  std::vector<NodeId> next_;  // per node: the one that follows in its tree's order
  std::vector<Tree> trees_;   // per node that is closed and no part of a larger tree yet
};

}  // namespace

void linearize_trees(Problem& problem) {
  Linearizer(problem).run();
}

}  // namespace schedule
