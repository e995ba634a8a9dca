// Memory nodes: which there are, whose processors are whose, and the system calls that ask where
// pages lie, move them, and bind a thread. On a machine of one node only several_nodes() is called.
// Hot, but for Topology::read(), which opens a file for each node.
//
// Pages are moved one by one (move_pages), not by a policy on their addresses (mbind): a policy would
// split mappings, and stay behind when the blocks are gone. Containers refuse both alike.
// Source: move_pages(2), numa(7), the kernel's ABI/stable/sysfs-devices-node.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace memo {

// A set of nodes, by bits. Nodes from kMaxNodes on count as none.
using NodeSet = std::uint64_t;
constexpr std::uint32_t kMaxNodes = 64;
constexpr NodeSet only(std::uint32_t node) {
  return NodeSet{1} << node;
}
constexpr bool several(NodeSet nodes) {
  return (nodes & (nodes - 1)) != 0;
}

// Bytes on each node.
struct NodeBytes {
  std::uint64_t on[kMaxNodes] = {};
};

class Topology {
 public:
  static constexpr const char* kFolder = "/sys/devices/system/node";
  static constexpr const char* kStatus = "/proc/self/status";
  static constexpr std::uint32_t kMaxProcessors = 4096;
  static constexpr std::uint32_t kNoNode = kMaxNodes;

  // Reads which nodes have processors and memory that the process may use, and their processors.
  // Takes 5 KiB of stack. Once.
  void read(const char* folder = kFolder, const char* status = kStatus);
  [[nodiscard]] NodeSet usable() const { return usable_; }
  // kNoNode for a processor that is not known, or -1. Any thread, after read().
  [[nodiscard]] std::uint32_t node_of(int processor) const {
    return processor < 0 || processor >= static_cast<int>(kMaxProcessors) ? kNoNode
                                                                          : of_[processor];
  }

 private:
  NodeSet usable_ = 0;
  std::uint8_t of_[kMaxProcessors] = {};  // the usable node of each, or kNoNode; see read()
};

namespace os {

// Whether there is more than one node. Opens, reads and closes a file.
bool several_nodes(const char* folder = Topology::kFolder);

// The processor that the calling thread is on, without a system call; -1 where that is not to be
// had. On AArch64 the C library tells from 2.35 on, and find_processor_note() finds where.
int processor();
void find_processor_note();

// Asks where `count` pages lie, or with `to` moves each to its node. `found[i]`: the node, or a negative
// errno, such as -ENOENT for a page without memory. False where the system refuses. What other
// processes have as well stays where it is.
bool page_nodes(void* const* pages, std::size_t count, const int* to, int* found);
// Binds the calling thread to the processors of the node that it may use; false where the system
// refuses, or there is none.
bool bind_to_node(const Topology& topology, std::uint32_t node);

}  // namespace os
}  // namespace memo
