// Makes streams of large allocations as a program would: calls to allocate() and free() in order.
// The networks here imitate what matters to the period finder: layers, residuals, gradients,
// imports.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "src/trace/event.h"

namespace memo::test {

using Random = std::mt19937_64;

class StreamBuilder {
 public:
  using Block = std::uint32_t;

  Block allocate(std::uint64_t size, std::uint8_t alignment_log2 = 6, std::uint64_t site = 0) {
    stream.push_back({size, site, kAlive, alignment_log2, Op::k_posix_memalign});
    return static_cast<Block>(stream.size() - 1);
  }
  void free(Block block) { stream[block].death = static_cast<std::uint32_t>(stream.size()); }
  void pass(std::uint64_t size) { free(allocate(size)); }  // a temporary

  // What the engine knows when allocation `count` - 1 has just been made.
  std::vector<Allocation> prefix(std::size_t count) const { return cut(stream, count); }
  static std::vector<Allocation> cut(const std::vector<Allocation>& all, std::size_t count) {
    std::vector<Allocation> result(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    for (Allocation& allocation : result) {
      allocation.death = allocation.death >= count ? kAlive : allocation.death;
    }
    return result;
  }

  std::vector<Allocation> stream;
};

inline std::uint64_t some_size(Random& random, std::uint64_t most = 1 << 22) {
  return 65536 + random() % (most / 64) * 64;
}

// Imports and initialisation: short-lived file buffers of any size, and weights that stay.
inline void prelude(StreamBuilder& to, Random& random, std::uint32_t calls) {
  while (calls > 0) {
    if (random() % 4 == 0) {
      const std::uint64_t size = some_size(random);
      for (std::uint32_t layer = 0; layer < 12 && calls > 0; ++layer, --calls) {
        to.allocate(size);
      }
    } else {
      to.pass(some_size(random));
      --calls;
    }
  }
}

// A network of equal layers around a residual, as in a transformer: every layer asks for the same
// sizes in the same order, so that the layers repeat within the iteration.
struct Network {
  std::vector<std::uint64_t> head;   // temporaries before the layers
  std::vector<std::uint64_t> layer;  // calls of one layer; the last one is its output
  std::vector<std::uint64_t> tail;   // temporaries after the layers
  std::uint32_t layers = 0;
  bool residual = true;  // the layers' outputs are large blocks themselves

  std::uint32_t calls() const {
    return static_cast<std::uint32_t>(head.size() + layer.size() * layers + tail.size() + residual);
  }
};

inline Network some_network(Random& random, std::uint32_t layers, std::size_t calls_per_layer) {
  Network network;
  const auto sizes = [&](std::size_t count) {
    std::vector<std::uint64_t> result(count);
    for (std::uint64_t& size : result) {
      size = some_size(random);
    }
    return result;
  };
  network.head = sizes(1 + random() % 6);
  network.layer = sizes(calls_per_layer);
  network.layer.back() = 1 << 20;  // the residual is no small part of a layer
  network.tail = sizes(1 + random() % 12);
  network.layers = layers;
  return network;
}

// One forward pass; every block dies within it.
inline void infer(StreamBuilder& to, const Network& network) {
  for (const std::uint64_t size : network.head) {
    to.pass(size);
  }
  StreamBuilder::Block residual = 0;
  if (network.residual) {
    residual = to.allocate(network.layer.back());
  }
  for (std::uint32_t layer = 0; layer < network.layers; ++layer) {
    std::vector<StreamBuilder::Block> inside;
    for (const std::uint64_t size : network.layer) {
      inside.push_back(to.allocate(size));
    }
    if (network.residual) {
      std::swap(residual, inside.back());  // the old one dies with the layer, the output lives on
    }
    for (const StreamBuilder::Block block : inside) {
      to.free(block);
    }
  }
  if (network.residual) {
    to.free(residual);
  }
  for (const std::uint64_t size : network.tail) {
    to.pass(size);
  }
}

// A training step: activations kept for the backward pass, gradients kept until the next step's
// beginning.
class Trainer {
 public:
  explicit Trainer(Network network) : network_(std::move(network)) {}

  void step(StreamBuilder& to) {
    for (const StreamBuilder::Block block : std::exchange(gradients_, {})) {
      to.free(block);
    }
    for (const std::uint64_t size : network_.head) {
      to.pass(size);
    }
    std::vector<StreamBuilder::Block> kept;
    for (std::uint32_t layer = 0; layer < network_.layers; ++layer) {
      for (std::size_t i = 0; i < network_.layer.size(); ++i) {
        const StreamBuilder::Block block = to.allocate(network_.layer[i]);
        if (i % 2 == 0) {
          kept.push_back(block);
        } else {
          to.free(block);
        }
      }
    }
    for (std::uint32_t layer = 0; layer < network_.layers; ++layer) {
      for (const std::uint64_t size : network_.layer) {
        to.pass(size + 64);
      }
      gradients_.push_back(to.allocate(network_.layer.front()));
      for (std::size_t i = 0; i < (network_.layer.size() + 1) / 2; ++i) {
        to.free(kept.back());
        kept.pop_back();
      }
    }
  }

 private:
  Network network_;
  std::vector<StreamBuilder::Block> gradients_;
};

}  // namespace memo::test
