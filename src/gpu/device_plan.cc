// The place that a call gets in its stream's plan.
#include "src/gpu/device.h"

namespace memo::gpu {

// The place that the stream's plan has for the call, if it has one and that is free. The slab gets
// its memory in the first iteration that it serves, as the pool's becomes free: to have both at
// once would need more than the program does. From then on no call of the driver is made here.
bool Device::plan(Lane& lane, Block& block) {
  const Learner::Answer answer = lane.learner.next(block.asked);
  if (answer.opened) {
    ++figures_.waits;
    lane.zones.clock.wait();  // what the pool has free may be moved
  }
  const bool serving = lane.learner.serving() != nullptr;
  lane.slab.pinned = serving;
  block.learner = &lane.learner;
  block.number = lane.learner.latest();
  if (lane.learner.wrapped()) {
    lane.zones.clock.tick();
  }
  if (answer.step == nullptr) {
    figures_.misses += serving;
    return false;
  }
  if (!claim(lane.slab, answer.step->offset, block.bytes)) {
    ++figures_.occupied;
    lane.learner.occupied(block.asked);
    return false;
  }
  block.zone = &lane.slab;
  block.offset = answer.step->offset;
  figures_.planned.add(block.bytes);
  return true;
}

bool Device::claim(Zone& slab, std::uint64_t offset, std::uint64_t bytes) {
  if (slab.claim(offset, bytes)) {
    return true;
  }
  if (!slab.claim_bare(offset, bytes)) {
    return false;
  }
  if (!commit(slab, offset, bytes, true)) {
    slab.release(offset, bytes);
    return false;
  }
  return true;
}

}  // namespace memo::gpu
