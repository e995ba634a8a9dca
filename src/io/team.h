// Where the threads of the process run that work just now: OpenMP's, for example, which write a slab
// and ask for nothing themselves. From /proc/self/task, a file for each thread: for one thread of the
// library's that has the time. Cold.
#pragma once

#include <cstdint>

#include "src/base/nodes.h"
#include "src/base/tuning.h"

namespace memo {

class Team {
 public:
  static constexpr const char* kTasks = "/proc/self/task";

  // Looks at all threads, kMaxTeam at most. Those that have used a processor since the last look work;
  // at the first look none do.
  void look(const Topology& topology, const char* tasks = kTasks);

  // The nodes of all threads that work and of which function(thread) is true.
  template <typename Function>
  [[nodiscard]] NodeSet nodes(Function&& function) const {
    NodeSet found = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
      const Member& member = members_[i];
      found |= member.works && function(member.thread) ? only(member.node) : 0;
    }
    return found;
  }
  void forget() { count_ = 0; }

 private:
  struct Member {
    std::uint32_t thread = 0;  // its number
    std::uint32_t node = 0;
    std::uint64_t ticks = 0;  // of a processor that it has used so far
    bool works = false;
  };
  [[nodiscard]] const Member* find(std::uint32_t thread) const;

  Member members_[tuning::kMaxTeam];
  Member before_[tuning::kMaxTeam];
  std::uint32_t count_ = 0;
  std::uint32_t count_before_ = 0;
};

}  // namespace memo
