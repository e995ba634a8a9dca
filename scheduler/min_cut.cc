// Dinic's algorithm without recursion: paths in a network of 10^5 operators are that long.
#include "scheduler/min_cut.h"

#include <algorithm>

#include "scheduler/index.h"

namespace schedule {
namespace {

constexpr std::size_t kStepsToClock = 100'000;  // arcs gone along: about a millisecond

}  // namespace

void FlowNetwork::add_arc(Vertex from, Vertex to, std::int64_t capacity) {
  arcs_.push_back({to, first_[at(from)], capacity});
  first_[at(from)] = static_cast<std::int32_t>(arcs_.size() - 1);
  arcs_.push_back({from, first_[at(to)], 0});
  first_[at(to)] = static_cast<std::int32_t>(arcs_.size() - 1);
}

bool FlowNetwork::build_layers(Vertex source, Vertex sink) {
  layer_.assign(first_.size(), -1);
  layer_[at(source)] = 0;
  std::vector<Vertex> queue{source};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (std::int32_t a = first_[at(queue[head])]; a >= 0; a = arcs_[at(a)].next) {
      const Arc& arc = arcs_[at(a)];
      if (arc.left > 0 && layer_[at(arc.to)] < 0) {
        layer_[at(arc.to)] = layer_[at(queue[head])] + 1;
        queue.push_back(arc.to);
      }
    }
  }
  return layer_[at(sink)] >= 0;
}

// Saturates paths of the layered network, depth first, until none is left.
std::optional<std::int64_t> FlowNetwork::augment(Vertex source, Vertex sink,
                                                 const Deadline& deadline) {
  std::int64_t total = 0;
  std::vector<std::int32_t> path;  // arcs from the source to `here`
  Vertex here = source;
  for (std::size_t steps = 0;; ++steps) {
    if (steps > kStepsToClock) {
      if (deadline.passed()) {
        return std::nullopt;
      }
      steps = 0;
    }
    if (here == sink) {
      steps += path.size();
      std::int64_t flow = kInfinite;
      for (const std::int32_t a : path) {
        flow = std::min(flow, arcs_[at(a)].left);
      }
      std::size_t keep = path.size();
      for (std::size_t i = path.size(); i-- > 0;) {
        arcs_[at(path[i])].left -= flow;
        arcs_[at(path[i] ^ 1)].left += flow;
        keep = arcs_[at(path[i])].left == 0 ? i : keep;
      }
      total += flow;
      here = arcs_[at(path[keep] ^ 1)].to;  // back to the tail of the first saturated arc
      path.resize(keep);
      continue;
    }
    std::int32_t& a = current_[at(here)];
    while (a >= 0 &&
           (arcs_[at(a)].left == 0 || layer_[at(arcs_[at(a)].to)] != layer_[at(here)] + 1)) {
      a = arcs_[at(a)].next;
    }
    if (a >= 0) {
      path.push_back(a);
      here = arcs_[at(a)].to;
    } else if (here == source) {
      return total;
    } else {
      here = arcs_[at(path.back() ^ 1)].to;
      current_[at(here)] = arcs_[at(path.back())].next;  // a dead end: not again
      path.pop_back();
    }
  }
}

std::optional<std::int64_t> FlowNetwork::min_cut(Vertex source, Vertex sink,
                                                 const Deadline& deadline) {
  std::int64_t total = 0;
  while (build_layers(source, sink)) {
    current_ = first_;
    const auto flow = deadline.passed() ? std::nullopt : augment(source, sink, deadline);
    if (!flow) {
      return std::nullopt;
    }
    total += *flow;
  }
  return total;
}

std::vector<bool> FlowNetwork::sink_side(Vertex sink) const {
  std::vector<bool> side(first_.size());
  side[at(sink)] = true;
  std::vector<Vertex> queue{sink};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (std::int32_t a = first_[at(queue[head])]; a >= 0; a = arcs_[at(a)].next) {
      const Vertex tail = arcs_[at(a)].to;
      if (arcs_[at(a ^ 1)].left > 0 && !side[at(tail)]) {
        side[at(tail)] = true;
        queue.push_back(tail);
      }
    }
  }
  return side;
}

}  // namespace schedule
