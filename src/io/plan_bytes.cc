#include "src/io/plan_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <span>
#include <vector>

#include "src/base/tuning.h"

namespace memo {
namespace {

bool is_group_of_ours(gid_t group) {
  if (group == getegid()) {
    return true;
  }
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, getgroups(0, nullptr))));
  const int count = getgroups(static_cast<int>(groups.size()), groups.data());
  return std::find(groups.begin(), groups.begin() + std::max(0, count), group) !=
         groups.begin() + std::max(0, count);
}

}  // namespace

std::string_view doubt(const struct stat& status, Trust trust) {
  const bool mine = status.st_uid == geteuid() || status.st_uid == 0;
  if ((status.st_mode & S_IWOTH) != 0) {
    return "anybody may write it; `chmod o-w` it if you trust what is in it";
  }
  if (trust == Trust::kOwner && !mine) {
    return "another user owns it; `chown` it, or let MEMOMALLOC_PLAN_TRUST=group take the files of "
           "your groups";
  }
  if (trust == Trust::kOwner && (status.st_mode & S_IWGRP) != 0) {
    return "its group may write it; `chmod g-w` it, or set MEMOMALLOC_PLAN_TRUST=group";
  }
  if ((!mine || (status.st_mode & S_IWGRP) != 0) && !is_group_of_ours(status.st_gid)) {
    return "its group is none of yours; `chgrp` it";
  }
  return {};
}

namespace {

bool is_something_else(const char* path) {
  struct stat status{};
  return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

// Closed at the end, whatever is thrown. What is no regular file is not opened: what a pipe holds,
// such as the program's own input, and a pipe that waits for its reader, are another's.
class OpenFile {
 public:
  explicit OpenFile(const char* path)
      : irregular(is_something_else(path)),
        number(irregular ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~OpenFile() {
    if (number >= 0) {
      close(number);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const bool irregular;
  const int number;
};

bool read_whole(int file, std::span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = read(file, bytes.data(), bytes.size());
    if (count <= 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

std::string_view read_plan_bytes(const char* path, Trust trust, std::vector<char>& bytes) {
  constexpr std::string_view kUnreadable = "it cannot be read, or is cut short";
  const OpenFile file(path);
  struct stat status{};
  if (file.number < 0 || fstat(file.number, &status) != 0 || !S_ISREG(status.st_mode)) {
    return kUnreadable;
  }
  if (const std::string_view doubts = doubt(status, trust); !doubts.empty()) {
    return doubts;
  }
  if (static_cast<std::uint64_t>(status.st_size) > tuning::kMaxPlanBytes) {
    return "it is larger than a plan file can be (4 MiB)";
  }
  bytes.resize(static_cast<std::size_t>(status.st_size));
  return read_whole(file.number, bytes) ? std::string_view() : kUnreadable;
}

}  // namespace memo
