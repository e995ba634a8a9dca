// On which memory nodes the threads are that write a slab, or read the weights, and so where it is to
// lie. Hot, but for Writers; no lock. One node: there. Several: spread over them all.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <numeric>

#include "src/base/nodes.h"
#include "src/base/tuning.h"

namespace memo {

// What is known of the machine's nodes, the same for all lanes.
struct NodesKnown {
  bool several = false;  // there are, and memory is to lie on the right ones
  // Once a thread that has the time has read it, which tells all; it outlives the lanes.
  mutable std::atomic<const Topology*> topology{nullptr};
};

// Where a lane's thread was at the ends of its iterations. Its thread notes, one other takes.
class Whereabouts {
 public:
  // Several nodes' threads write in the slab: it is best made ready by those. Any thread.
  void set_apart(bool apart) { apart_.store(apart, std::memory_order_relaxed); }
  [[nodiscard]] bool apart() const { return apart_.load(std::memory_order_relaxed); }
  // True if the thread was on another node the last time.
  bool note(std::uint32_t node) {
    if (node >= kMaxNodes) {
      return false;
    }
    // Who takes at the same time may miss one, or have it twice.
    seen_[node].store(seen_[node].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const bool moved = last_ != Topology::kNoNode && last_ != node;
    last_ = node;
    return moved;
  }

  // The same, of the calling thread now. Without a system call.
  bool note_here(const NodesKnown& nodes) {
    const Topology* topology = nodes.topology.load(std::memory_order_acquire);
    return topology != nullptr && note(topology->node_of(os::processor()));
  }

  struct Seen {
    // With a kWriterShare of the iterations at least; none: there were no iterations.
    NodeSet nodes = 0;
    NodeSet most = 0;  // the one with most of them
  };
  // Since it was taken last.
  Seen take() {
    std::uint32_t counts[kMaxNodes];
    std::uint64_t all = 0;
    for (std::uint32_t node = 0; node < kMaxNodes; ++node) {
      counts[node] = seen_[node].exchange(0, std::memory_order_relaxed);
      all += counts[node];
    }
    Seen seen;
    if (all != 0) {
      for (std::uint32_t node = 0; node < kMaxNodes; ++node) {
        const bool much = counts[node] * std::uint64_t{tuning::kWriterShare} >= all;
        seen.nodes |= counts[node] != 0 && much ? only(node) : 0;
      }
      seen.most =
          only(static_cast<std::uint32_t>(std::max_element(counts, counts + kMaxNodes) - counts));
    }
    return seen;
  }

 private:
  std::atomic<std::uint32_t> seen_[kMaxNodes] = {};  // iterations
  std::uint32_t last_ = Topology::kNoNode;           // the owner's
  std::atomic<bool> apart_{false};
};

// What one look after another at the writers makes for. A thread that moves once is waited for; one
// that moves twice in eight looks, or is on several nodes in three, is taken to be on all that the
// eight found. Writers that three looks find on the same nodes, as a team, are on those.
class Writers {
 public:
  // The writers were there since the last look; an empty set tells nothing.
  void look(NodeSet nodes) {
    if (nodes == 0) {
      return;
    }
    const NodeSet both = last_ == 0 ? nodes : last_ | nodes;
    const bool second = last_ != 0;
    alike_ = nodes == last_ ? alike_ + 1 : 1;
    last_ = nodes;
    roamed_ = several(both) ? roamed_ + 1 : 0;
    const bool moved = !several(nodes) && single_ != 0 && single_ != nodes;
    single_ = several(nodes) ? single_ : nodes;
    moves_ = static_cast<std::uint8_t>(unsigned{moves_} << 1U | (moved ? 1U : 0U));
    seen_[looks_++ % kRemembered] = nodes;
    const bool roams = roamed_ >= tuning::kRoamingLooks;
    if (std::popcount(moves_) > 1 || (roams && alike_ < tuning::kRoamingLooks)) {
      settled_ = std::accumulate(seen_, seen_ + kRemembered, NodeSet{0},
                                 [](NodeSet all, NodeSet one) { return all | one; });
    } else if (second && (roamed_ == 0 || roams)) {
      settled_ = both;
    }
  }
  // Where they are for good; empty before that is known.
  [[nodiscard]] NodeSet settled() const { return settled_; }

 private:
  NodeSet last_ = 0;
  std::uint32_t alike_ = 0;  // looks in a row that found what the last one did
  NodeSet settled_ = 0;
  static constexpr std::uint32_t kRemembered = 8;  // looks: the bits of moves_
  NodeSet seen_[kRemembered] = {};
  NodeSet single_ = 0;  // of the last look that found one node
  std::uint32_t looks_ = 0;
  std::uint8_t moves_ = 0;    // a bit for each look: it found another node than single_
  std::uint32_t roamed_ = 0;  // looks in a row that found several nodes, with the one before each
};

}  // namespace memo
