// The server of one lane: follows the schedule and places each allocation where the plan says. Hot.
//
// It works on a page map alone; whose memory lies behind, it does not know. Position first: the
// next call is taken for the next step, its size always verified. When they differ, the call goes
// elsewhere and the place is found again from the sizes of the last calls, so that an extra, a
// missing or a changed call costs only itself and a step or two.
#pragma once

#include <cstdint>

#include "src/serve/context_index.h"
#include "src/serve/page_map.h"
#include "src/serve/schedule.h"

namespace memo {

// Why a call was not placed; kNone if it was.
enum class Miss : std::uint8_t { kNone, kSize, kOrder, kAlignment, kOccupied, kLeftOut };

class Server {
 public:
  // Serves `schedule` from step `position` on. Both outlive the server's use of them.
  void start(const Schedule* schedule, const ContextIndex* index, std::uint32_t position);
  // Goes on with another schedule, or another shape of the same, from step `position` on; what is
  // being judged stays.
  void change(const Schedule* schedule, const ContextIndex* index, std::uint32_t position);
  void stop() { schedule_ = nullptr; }

  struct Placement {
    std::uint64_t offset = kUnplanned;  // bytes from the slab's start, where miss is kNone
    Miss miss = Miss::kOrder;
    bool dirty = true;     // the place may hold old bytes
    bool wrapped = false;  // the call ended an iteration
  };
  // The next allocation of the stream; the granules of a placement are claimed in `pages`.
  Placement next(std::uint64_t size, std::uint64_t alignment, PageMap& pages);

  [[nodiscard]] const Schedule* schedule() const { return schedule_; }
  [[nodiscard]] std::uint32_t position() const { return position_; }
  // True when most of the last iteration's calls (at least kWindow) did not match, or many in each
  // of several iterations: the program has changed.
  [[nodiscard]] bool lost() const { return lost_; }
  // The last calls were the steps expected, one after the other, and every step was among them.
  [[nodiscard]] bool walked_through() const { return in_order_ >= schedule_->count; }
  // Lost for the latter reason: the plan is another program's, which shares a part with this one.
  [[nodiscard]] bool unfit() const;

 private:
  bool find_place(std::uint64_t size);
  void judge(bool matched, std::uint64_t size);

  const Schedule* schedule_ = nullptr;
  const ContextIndex* index_ = nullptr;
  std::uint32_t position_ = 0;
  std::uint64_t recent_[kContext] = {};  // sizes of the last calls, oldest first
  std::uint32_t calls_ = 0;              // of the window that is being judged
  std::uint32_t misses_ = 0;
  std::uint64_t bytes_ = 0;         // of the window's calls
  std::uint64_t missed_bytes_ = 0;  // of its misses
  std::uint32_t run_ = 0;           // misses in a row
  std::uint32_t in_order_ = 0;      // calls in a row that were the step expected; saturates
  std::uint32_t poor_windows_ = 0;  // in a row
  bool lost_ = false;
};

}  // namespace memo
