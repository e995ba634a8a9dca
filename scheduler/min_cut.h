// Minimum cuts in directed networks with integer capacities (Dinic's algorithm). Cold.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "scheduler/deadline.h"

namespace schedule {

class FlowNetwork {
 public:
  using Vertex = std::int32_t;
  static constexpr std::int64_t kInfinite = std::numeric_limits<std::int64_t>::max() / 4;

  explicit FlowNetwork(std::size_t vertices) : first_(vertices, -1) {}

  Vertex add_vertex() {
    first_.push_back(-1);
    return static_cast<Vertex>(first_.size() - 1);
  }
  // Capacity >= 0; kInfinite for an arc that no finite cut may hold.
  void add_arc(Vertex from, Vertex to, std::int64_t capacity);

  // The capacity of the cheapest cut between source and sink; none if the time is up before.
  // Source: Dinic 1970, blocking flows in layered networks.
  std::optional<std::int64_t> min_cut(Vertex source, Vertex sink, const Deadline& deadline);

  // After min_cut: whether the vertex is on the source's side of the cut nearest to the source.
  bool source_side(Vertex v) const { return layer_[static_cast<std::size_t>(v)] >= 0; }
  // After min_cut: per vertex, whether it is on the sink's side of the cut nearest to the sink.
  std::vector<bool> sink_side(Vertex sink) const;

 private:
  struct Arc {
    Vertex to;
    std::int32_t next;  // the next arc of the same tail
    std::int64_t left;  // capacity left; the arc with the index ^ 1 is its reverse
  };
  bool build_layers(Vertex source, Vertex sink);
  std::optional<std::int64_t> augment(Vertex source, Vertex sink, const Deadline& deadline);

  std::vector<std::int32_t> first_;
  std::vector<Arc> arcs_;
  std::vector<std::int32_t> layer_;
  std::vector<std::int32_t> current_;
};

}  // namespace schedule
