// What cgroups leave the process of their memory: the least limit up the tree, of version 2
// (memory.max, memory.high) or of version 1 (memory.limit_in_bytes), and whether somebody has to
// wait for memory. Hot, but for rare decisions: a look opens and reads four small files for each
// level of the tree.
//
// A group refuses no memory, it ends a process that takes too much. So what is held and not used
// must be given back before. The page cache is not counted: the kernel takes it back by itself.
// Source: the kernel's admin-guide/cgroup-v2.rst, admin-guide/cgroup-v1/memory.rst and
// accounting/psi.rst.
#pragma once

#include <cstddef>
#include <cstdint>

namespace memo {

class GroupLimit {
 public:
  static constexpr std::uint64_t kNone = UINT64_MAX;
  static constexpr std::size_t kMaxPath = 512;  // of a group's folder, with its end

  static constexpr const char* kGroups = "/proc/self/cgroup";
  static constexpr const char* kFolders = "/sys/fs/cgroup";
  static constexpr const char* kMachinesPressure = "/proc/pressure/memory";

  struct Room {
    std::uint64_t limit = kNone;  // bytes, the least up the tree
    std::uint64_t left = kNone;   // bytes, the least up the tree: limit - (used - page cache)
  };

  // Finds the process' group. `groups` names it as /proc/PID/cgroup does; the groups' folders are
  // below `folders`. A container may see its own group as the root, by a path that it does not
  // have. A path that is too long for us (some 400 bytes) is as none.
  void find(const char* groups = kGroups, const char* folders = kFolders);
  [[nodiscard]] bool found() const { return path_[0] != '\0'; }
  bool operator==(const GroupLimit&) const = default;
  // What is left now, all files read again. Any thread.
  [[nodiscard]] Room look() const;
  // Tasks of the group waited for memory for kPressure of the last ten seconds; tasks of the
  // machine, which `machine` tells of, where no group of version 2 has the memory. False where the
  // kernel does not tell. Any thread.
  [[nodiscard]] bool pressed(const char* machine = kMachinesPressure) const;

 private:
  char path_[kMaxPath] = {};  // of the group's folder; empty: there is none
  std::size_t root_ = 0;      // how much of it is the tree's root
  bool second_ = false;       // version 2
};

}  // namespace memo
