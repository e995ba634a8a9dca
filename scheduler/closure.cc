// Certain moves of one node, and of groups that grow along what each node makes possible.
#include "scheduler/closure.h"

#include <algorithm>

namespace schedule {
namespace {

// A group that has not come down after so many nodes is left to the search. Found by trial on
// training graphs: longer groups cost more time than the states they save.
constexpr std::size_t kLongestGroup = 10;

}  // namespace

bool Closure::close_single(ReadyRunner& runner, Bytes limit, std::vector<NodeId>& path) {
  bool moved = false;
  for (bool again = true; again && !deadline_.passed();) {
    again = false;
    for (std::size_t i = 0; i < runner.ready().size();) {
      const NodeId n = runner.ready()[i];
      if (runner->change(n) <= 0 && runner->while_running(n) <= limit) {
        runner.run(n);  // another ready node may stand in its place now
        path.push_back(n);
        moved = again = true;
      } else {
        ++i;
      }
    }
  }
  return moved;
}

// Follows the group's own products greedily until the level is back at `start` or below.
bool Closure::descend(ReadyRunner& runner, Bytes limit, Bytes start, std::vector<NodeId>& group) {
  while (group.size() < kLongestGroup) {
    NodeId best = kNoNode;
    Bytes best_change = 0;
    for (const NodeId n : group) {
      const auto consider = [&](NodeId next) {
        if (runner->ready(next) && runner->while_running_plain(next) <= limit &&
            (best == kNoNode || runner->change(next) < best_change)) {
          best = next;
          best_change = runner->change(next);
        }
      };
      std::ranges::for_each(problem_.succs[n], consider);
    }
    if (best == kNoNode) {
      return false;
    }
    runner.run(best);
    group.push_back(best);
    if (runner->level() <= start) {
      return true;
    }
  }
  return false;
}

// Whether no part of the group that could be run alone ends below the whole group. The runner
// stands behind the group, and does so again afterwards. The group is small: its downsets are gone
// through.
bool Closure::lowest_at_end(ReadyRunner& runner, const std::vector<NodeId>& group) {
  const Bytes end = runner->level();
  for (std::size_t i = group.size(); i-- > 0;) {
    runner.undo(group[i]);
  }
  // Each downset is reached once: a node is either run now or banned until we come back.
  bool lowest = true;
  std::vector<char> banned(group.size());
  std::size_t steps = 0;
  const auto visit = [&](const auto& self) -> void {
    if (runner->level() < end || ++steps > 2000) {
      lowest = false;
    }
    if (!lowest) {
      return;
    }
    std::vector<std::size_t> banned_here;
    for (std::size_t i = 0; i < group.size() && lowest; ++i) {
      if (!banned[i] && runner->ready(group[i])) {
        runner.run(group[i]);
        self(self);
        runner.undo(group[i]);
        banned[i] = 1;
        banned_here.push_back(i);
      }
    }
    for (const std::size_t i : banned_here) {
      banned[i] = 0;
    }
  };
  visit(visit);
  for (const NodeId n : group) {
    runner.run(n);
  }
  return lowest;
}

bool Closure::close_group(ReadyRunner& runner, Bytes limit, std::vector<NodeId>& path) {
  const Bytes start = runner->level();
  candidates_.assign(runner.ready().begin(), runner.ready().end());
  for (const NodeId first : candidates_) {
    if (deadline_.passed()) {
      return false;
    }
    if (runner->while_running_plain(first) > limit) {
      continue;
    }
    std::vector<NodeId> group{first};
    runner.run(first);
    if (descend(runner, limit, start, group) && lowest_at_end(runner, group)) {
      path.insert(path.end(), group.begin(), group.end());
      return true;
    }
    for (std::size_t i = group.size(); i-- > 0;) {
      runner.undo(group[i]);
    }
  }
  return false;
}

void Closure::close(ReadyRunner& runner, Bytes limit, std::vector<NodeId>& path) {
  do {
    close_single(runner, limit, path);
  } while (close_group(runner, limit, path));
}

}  // namespace schedule
