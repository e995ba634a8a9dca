// Makes a slab's memory anew on the nodes where it is to lie, for systems that do not let pages be
// moved: what no block lies behind is given back, and at once made ready by a thread that is bound to
// the node. Blocks in use stay, and their memory follows once they are free. What had no memory gets
// none. Cold; on a thread of the library's own, which is bound to a node afterwards.
//
//   for each round, each stripe:  take() while the slab's lane is not at work;  then make_ready()
#pragma once

#include <cstdint>

#include "src/base/granule.h"
#include "src/serve/residence.h"
#include "src/serve/slab.h"

namespace memo {

class Remaking {
 public:
  static constexpr std::uint64_t kStripe = os::kHugePage;  // bytes

  // Of a slab of `height` bytes. Takes a byte for each granule; without that memory nothing is done.
  Remaking(const Residence& residence, NodeSet nodes, std::uint64_t height);
  ~Remaking();
  Remaking(const Remaking&) = delete;
  Remaking& operator=(const Remaking&) = delete;

  // Gives back the memory of the stripe at `offset` that is free and was not made ready yet. Nobody
  // claims meanwhile. False where the slab is not so high any more.
  bool take(const Slab& slab, std::uint64_t offset);
  // Makes ready what the last take() has given back.
  void make_ready();

  [[nodiscard]] bool finished() const { return left_ == Granules{0} || refused_; }
  // The system does not let a thread be bound, or memory be made ready.
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] std::uint64_t bytes() const { return made_; }  // made ready so far

 private:
  static constexpr std::uint32_t kMaxRuns =
      static_cast<std::uint32_t>(granules_in(kStripe).count() / 2);
  struct Run {
    char* start;
    std::uint64_t bytes;
  };

  const Residence& residence_;
  NodeSet nodes_;
  Granules granules_;
  Granules left_;       // that have not been given back yet
  std::uint8_t* done_;  // one for each granule
  Run runs_[kMaxRuns];  // given back, and to be made ready
  std::uint32_t run_count_ = 0;
  std::uint64_t made_ = 0;
  bool refused_ = false;
};

}  // namespace memo
