#include "src/io/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <vector>

#include "src/base/tuning.h"
#include "src/io/plan_bytes.h"
#include "src/io/plan_records.h"
#include "src/io/replace_file.h"

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

// Closed at the end, whatever is thrown. What is no regular file is not opened: what a pipe holds, such
// as the program's own input, and who waits for its reader, are another's.
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

bool save_plans(const RecursionGuard&, const char* path,
                std::span<const SavedPlan> plans) noexcept {
  try {
    const std::vector<char> bytes = format_plans(plans, tuning::kMaxPlanBytes);
    return replace_file(path,
                        [&](int file) { return write_all(file, bytes.data(), bytes.size()); });
  } catch (...) {
    errno = ENOMEM;
    return false;
  }
}

bool is_foreign(const char* path) noexcept {
  const OpenFile file(path);
  if (file.irregular) {
    return true;
  }
  char head[kPlanMagic.size()];
  const ssize_t count = file.number < 0 ? 0 : read(file.number, head, sizeof head);
  return count > 0 &&
         !kPlanMagic.starts_with(std::string_view(head, static_cast<std::size_t>(count)));
}

std::string_view doubt_about(const char* path, Trust trust) noexcept {
  try {
    struct stat status{};
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) ? doubt(status, trust)
                                                               : std::string_view();
  } catch (...) {
    return "there is not enough memory to look at it";
  }
}

std::uint32_t load_plans(const RecursionGuard&, const char* path, std::uint64_t most_height,
                         std::span<LoadedPlan> plans, std::string_view* problem,
                         Trust trust) noexcept {
  *problem = {};
  try {
    std::vector<char> bytes;
    if (access(path, F_OK) != 0) {
      return 0;
    }
    *problem = read_plan_bytes(path, trust, bytes);
    return problem->empty() ? parse_plans(bytes, most_height, plans, problem) : 0;
  } catch (...) {
    *problem = "there is not enough memory for it";
    return 0;
  }
}

}  // namespace memo
