// Whether there is room for more memory under the control groups' limit. Hot: without a limit one comparison; with one,
// files are read each time that a 64th of it was taken anew.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/group_limit.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

class Headroom {
 public:
  // Once, before any other call. A confined thread finds no limit.
  void open(const char* groups = GroupLimit::kGroups, const char* folders = GroupLimit::kFolders) {
    if (os::confined()) {
      return;
    }
    group_.find(groups, folders);
    limit_.store(group_.look().limit, std::memory_order_relaxed);
  }
  // The least limit at the last look, bytes; GroupLimit::kNone: there is none.
  [[nodiscard]] std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }

  // A call takes so many bytes that had no memory. True where hardly any room is left, and what is
  // not used should be given back. Any thread.
  bool lacks(std::uint64_t bytes) const {
    const std::uint64_t limit = this->limit();
    if (limit == GroupLimit::kNone) {
      return false;
    }
    const std::uint64_t taken = fresh_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (taken < limit / tuning::kRoomStep) {
      return false;
    }
    fresh_.store(0, std::memory_order_relaxed);
    return scarce(taken);
  }

  // True where less than `bytes` and a margin are left now. The limit may have changed since the
  // last look. A confined thread, which may open no file, is told that there is enough. Any thread.
  bool scarce(std::uint64_t bytes) const {
    if (limit() == GroupLimit::kNone || os::confined()) {
      return false;
    }
    return look(bytes);
  }
  // Looks whether so much as the margin is left, and notices a limit that was set where there was none. For a thread that
  // has the time, from time to time: is_short() tells what it saw until it looks again.
  void look_again() const { short_.store(!os::confined() && look(0), std::memory_order_relaxed); }
  [[nodiscard]] bool is_short() const { return short_.load(std::memory_order_relaxed); }

 private:
  bool look(std::uint64_t bytes) const {
    const GroupLimit::Room room = group_.look();
    limit_.store(room.limit, std::memory_order_relaxed);
    return room.limit != GroupLimit::kNone && room.left < bytes + room.limit / tuning::kRoomMargin;
  }

  GroupLimit group_;
  // What was seen last.
  mutable std::atomic<std::uint64_t> limit_{GroupLimit::kNone};
  mutable std::atomic<bool> short_{false};
  mutable std::atomic<std::uint64_t> fresh_{0};  // bytes taken since the last look
};

}  // namespace memo
