// The network of a node's cheapest state; see scheduler/README.md, cuts.
#include "scheduler/state_network.h"

#include <algorithm>

#include "scheduler/index.h"

namespace schedule {
namespace {

// A saving counts for the bound unless the input surely outlives the node.
Bytes possible_saving(const Problem& problem, NodeId node, const std::vector<bool>& later) {
  Bytes best = 0;
  for (const Saving& saving : problem.savings[at(node)]) {
    const bool outlives = std::ranges::any_of(problem.readers[saving.input], [&](NodeId reader) {
      return reader != node && later[at(reader)];
    });
    best = std::max(best, outlives ? 0 : saving.bytes);
  }
  return best;
}

}  // namespace

StateNetwork::StateNetwork(const Problem& problem, NodeId node, const std::vector<bool>& earlier,
                           const std::vector<bool>& later)
    : network_(2), vertex_(earlier.size(), kSink) {
  for (std::size_t n = 0; n < vertex_.size(); ++n) {
    vertex_[n] = earlier[n] ? kSource : later[n] ? kSink : network_.add_vertex();
  }
  for (NodeId n = 0; n < problem.nodes(); ++n) {
    for (const NodeId pred : problem.preds[n]) {
      if (vertex_[at(n)] > kSink && vertex_[at(pred)] > kSink) {
        network_.add_arc(vertex_[at(n)], vertex_[at(pred)], FlowNetwork::kInfinite);
      }
    }
  }
  always_ = problem.base + problem.workspace[at(node)] - possible_saving(problem, node, later);
  for (const StorageId s : problem.makes[node]) {
    always_ += problem.storage(s).bytes;
  }
  for (std::size_t s = 0; s < problem.storages.size(); ++s) {
    add_storage(problem, static_cast<StorageId>(s));
  }
}

std::optional<CheapestState> StateNetwork::solve(const Deadline& deadline) {
  const auto cut = network_.min_cut(kSource, kSink, deadline);
  if (!cut) {
    return std::nullopt;
  }
  CheapestState result;
  result.while_running = least_ = always_ + *cut;
  const std::vector<bool> out = network_.sink_side(kSink);
  for (const FlowNetwork::Vertex v : vertex_) {
    result.before.push_back(network_.source_side(v));
    result.before_largest.push_back(!out[at(v)]);
  }
  return result;
}

std::optional<Bytes> StateNetwork::least_if(NodeId other, bool has_run, const Deadline& deadline) {
  probe_ = network_;
  const FlowNetwork::Vertex v = vertex_[at(other)];
  probe_.add_arc(has_run ? kSource : v, has_run ? v : kSink, FlowNetwork::kInfinite);
  const auto more = probe_.min_cut(kSource, kSink, deadline);
  return more ? std::optional(least_ + *more) : std::nullopt;
}

// The storage costs its bytes if its producer is on the source's side and it is kept or a reader
// is not.
void StateNetwork::add_storage(const Problem& problem, StorageId s) {
  const Storage& storage = problem.storage(s);
  const FlowNetwork::Vertex producer =
      storage.producer == kNoNode ? kSource : vertex_[at(storage.producer)];
  if (producer == kSink) {
    return;
  }
  bool outlives = storage.kept;
  std::vector<FlowNetwork::Vertex> readers;
  for (const NodeId reader : problem.readers[s]) {
    const FlowNetwork::Vertex v = vertex_[at(reader)];
    outlives = outlives || v == kSink;
    if (v > kSink) {
      readers.push_back(v);
    }
  }
  if (outlives && producer == kSource) {
    always_ += storage.bytes;
  } else if (outlives) {
    network_.add_arc(producer, kSink, storage.bytes);
  } else if (readers.size() == 1) {
    network_.add_arc(producer, readers.front(), storage.bytes);
  } else if (!readers.empty()) {
    const FlowNetwork::Vertex alive = network_.add_vertex();
    network_.add_arc(producer, alive, storage.bytes);
    for (const FlowNetwork::Vertex reader : readers) {
      network_.add_arc(alive, reader, FlowNetwork::kInfinite);
    }
  }
}

}  // namespace schedule
