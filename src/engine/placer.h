// Puts each call of a stream where the plan says: the cursor finds the step, the slab's page map
// grants its place, and the plan's health is kept. Hot; one lane's. Whose memory lies behind the
// page map it does not know.
#pragma once

#include <cstdint>

#include "src/follow/cursor.h"
#include "src/follow/health.h"
#include "src/serve/page_map.h"

namespace memo {

// Why a call was not placed; kNone if it was.
enum class Miss : std::uint8_t { kNone, kSize, kOrder, kAlignment, kOccupied, kLeftOut };

class Placer {
 public:
  // Serves `schedule` from the cursor's place on. Both outlive the placer's use of them.
  void start(const Schedule* schedule, const ContextIndex* index, Cursor at);
  // Goes on with another layout of the same plan; what is being judged stays.
  void change(const Schedule* schedule, const ContextIndex* index, Cursor at);
  void stop() { schedule_ = nullptr; }

  struct Placement {
    std::uint64_t offset = kUnplanned;  // bytes from the slab's start, where miss is kNone
    Miss miss = Miss::kOrder;
    bool dirty = true;     // the place may hold old bytes
    bool wrapped = false;  // the call ended an iteration
    // The call is a step of the plan, whether or not that has a place.
    [[nodiscard]] bool matched() const { return miss != Miss::kSize && miss != Miss::kOrder; }
  };
  // The next allocation of the stream; the granules of a placement are claimed in `pages`.
  Placement next(std::uint64_t size, std::uint64_t alignment, PageMap& pages);

  [[nodiscard]] const Schedule* schedule() const { return schedule_; }
  [[nodiscard]] std::uint32_t position() const { return cursor_.position(); }
  // The last calls were the steps expected, one after the other, and every step was among them.
  [[nodiscard]] bool walked_through() const { return cursor_.run() >= schedule_->count; }
  [[nodiscard]] const Health& health() const { return health_; }

 private:
  const Schedule* schedule_ = nullptr;
  const ContextIndex* index_ = nullptr;
  Cursor cursor_;
  Recent recent_;
  Health health_;
};

}  // namespace memo
