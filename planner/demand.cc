// The segment tree of demands. Cold.
#include "planner/demand.h"

#include <algorithm>
#include <bit>

namespace dsa {

Demand::Demand(const Model& model)
    : model_(model),
      leaves_(std::bit_ceil(std::max<std::size_t>(model.load.size(), 1))),
      nodes_(2 * leaves_) {}

void Demand::reset() {
  for (std::size_t i = 0; i < leaves_; ++i) {
    nodes_[leaves_ + i] = {i < model_.load.size() ? model_.load[i] : 0, 0};
  }
  for (std::size_t x = leaves_; --x > 0;) {
    nodes_[x] = {std::max(nodes_[2 * x].most, nodes_[2 * x + 1].most), 0};
  }
}

void Demand::waste(const Span& span, Bytes bytes) {
  add(1, {0, static_cast<Section>(leaves_)}, span, bytes);
}

Demand::Most Demand::most(const Span& span) const {
  Most best{-1, span.lower};
  find(1, {0, static_cast<Section>(leaves_)}, span, 0, best);
  return best;
}

void Demand::add(std::size_t x, const Span& sections, const Span& span, Bytes bytes) {
  Node& node = nodes_[x];
  if (span.lower <= sections.lower && sections.upper <= span.upper) {
    node.most += bytes;
    node.added += bytes;
    return;
  }
  const Section middle = sections.lower + (sections.upper - sections.lower) / 2;
  if (span.lower < middle) {
    add(2 * x, {sections.lower, middle}, span, bytes);
  }
  if (span.upper > middle) {
    add(2 * x + 1, {middle, sections.upper}, span, bytes);
  }
  node.most = std::max(nodes_[2 * x].most, nodes_[2 * x + 1].most) + node.added;
}

void Demand::find(std::size_t x, const Span& sections, const Span& span, Bytes above,
                  Most& best) const {
  const Node& node = nodes_[x];
  if (node.most + above <= best.height) {
    return;
  }
  if (span.lower <= sections.lower && sections.upper <= span.upper) {
    best.height = node.most + above;
    for (; x < leaves_; x = nodes_[2 * x].most >= nodes_[2 * x + 1].most ? 2 * x : 2 * x + 1) {
    }
    best.section = static_cast<Section>(x - leaves_);
    return;
  }
  const Section middle = sections.lower + (sections.upper - sections.lower) / 2;
  if (span.lower < middle) {
    find(2 * x, {sections.lower, middle}, span, above + node.added, best);
  }
  if (span.upper > middle) {
    find(2 * x + 1, {middle, sections.upper}, span, above + node.added, best);
  }
}

}  // namespace dsa
