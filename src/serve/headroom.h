// Whether there is room for more memory under the cgroups' limit. Hot: without a limit one
// comparison; with one, files are read each time that a 64th of it was taken anew.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/group_limit.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

class Headroom {
 public:
  // Once, before any other call; the names outlive this. A confined thread finds no limit.
  void open(const char* groups = GroupLimit::kGroups, const char* folders = GroupLimit::kFolders) {
    groups_ = groups;
    folders_ = folders;
    if (os::confined()) {
      return;
    }
    find();
    const GroupLimit::Room room = group().look();
    limit_.store(room.limit, std::memory_order_relaxed);
    used_.store(room.limit - room.left, std::memory_order_relaxed);
  }
  // The least limit at the last look, bytes; GroupLimit::kNone: there is none.
  [[nodiscard]] std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  // A call takes so many bytes that had no memory, of `alive` bytes in blocks. True where hardly
  // any room is left, and what is not used should be given back: what was taken and not yet written
  // counts, since no group has it on its books before. Any thread.
  bool lacks(std::uint64_t bytes, std::uint64_t alive) const {
    const std::uint64_t limit = this->limit();
    if (limit == GroupLimit::kNone) {
      return false;
    }
    const std::uint64_t taken = fresh_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (taken < limit / (4 * tuning::kRoomMargin)) {
      return false;
    }
    fresh_.store(0, std::memory_order_relaxed);
    if (os::confined()) {
      return false;
    }
    const GroupLimit::Room room = see();
    const std::uint64_t used = room.limit - room.left;
    const std::uint64_t before = used_.exchange(used, std::memory_order_relaxed);
    const std::uint64_t written = sub_sat(used, before);
    const std::uint64_t promised = promised_.load(std::memory_order_relaxed) + taken;
    const std::uint64_t still = std::min(sub_sat(promised, written), alive);
    promised_.store(still, std::memory_order_relaxed);
    return less_than(room, still);
  }

  // Looks whether so much as the margin is left and nobody has to wait for memory, and notices a
  // limit that was set where there was none, or that the process was moved to another group. For
  // one thread that has the time, once a second at most: is_short() and is_tight() tell what it saw
  // until it looks again.
  void look_again(const char* machines_pressure = GroupLimit::kMachinesPressure) const {
    const bool may_look = !os::confined();
    if (may_look) {
      find();
    }
    const GroupLimit::Room room = may_look ? see() : GroupLimit::Room{};
    const bool is_short = may_look && (less_than(room, 0) || group().pressed(machines_pressure));
    short_.store(is_short, std::memory_order_relaxed);
    tight_.store(room.left < room.limit / tuning::kTightShare, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_short() const { return short_.load(std::memory_order_relaxed); }
  // What is left could be taken within a second or so, without any large block.
  [[nodiscard]] bool is_tight() const { return tight_.load(std::memory_order_relaxed); }

 private:
  // Another thread may still read the group of before, whose place the next call writes: a second
  // later.
  void find() const {
    const std::uint32_t other = 1 - now_.load(std::memory_order_relaxed);
    group_[other].find(groups_, folders_);
    if (group_[other].found() && group_[other] != group()) {
      now_.store(other, std::memory_order_release);
    }
  }
  [[nodiscard]] const GroupLimit& group() const {
    return group_[now_.load(std::memory_order_acquire)];
  }
  GroupLimit::Room see() const {
    const GroupLimit::Room room = group().look();
    limit_.store(room.limit, std::memory_order_relaxed);
    return room;
  }
  static bool less_than(const GroupLimit::Room& room, std::uint64_t bytes) {
    return room.limit != GroupLimit::kNone && room.left < bytes + room.limit / tuning::kRoomMargin;
  }

  const char* groups_ = GroupLimit::kGroups;
  const char* folders_ = GroupLimit::kFolders;
  mutable GroupLimit group_[2];  // that of now, and the one before
  mutable std::atomic<std::uint32_t> now_{0};
  // What was seen last.
  mutable std::atomic<std::uint64_t> limit_{GroupLimit::kNone};
  mutable std::atomic<bool> short_{false};
  mutable std::atomic<bool> tight_{false};
  mutable std::atomic<std::uint64_t> fresh_{0};  // bytes taken since the last look
  // By lacks(), bytes: what the group had, and what was taken and not written by then. Threads that
  // look at once may each miss the other's part, until the next look.
  mutable std::atomic<std::uint64_t> used_{0};
  mutable std::atomic<std::uint64_t> promised_{0};
};

}  // namespace memo
