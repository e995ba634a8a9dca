#include "src/base/group_limit.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/proc_file.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// Of a line of /proc/PID/cgroup.
constexpr std::size_t kMaxGroupLine = 448;

// The files of one version.
struct Names {
  const char* limits[2];  // nullptr: there is no second one
  const char* used;
  // Names in memory.stat, each with the space behind it: the lists of file pages, all file pages,
  // and those of tmpfs.
  std::string_view lists[2];
  std::string_view pages;
  std::string_view shared;
};
constexpr Names kFirst{{"memory.limit_in_bytes", nullptr},
                       "memory.usage_in_bytes",
                       {"total_inactive_file ", "total_active_file "},
                       "total_cache ",
                       "total_shmem "};
constexpr Names kSecond{{"memory.max", "memory.high"},
                        "memory.current",
                        {"inactive_file ", "active_file "},
                        "file ",
                        "shmem "};

// A path that is put together in place.
class Path {
 public:
  explicit Path(std::string_view start) { add(start); }
  bool add(std::string_view part) {
    if (size_ + part.size() >= sizeof text_) {
      return false;
    }
    part.copy(text_ + size_, part.size());
    size_ += part.size();
    text_[size_] = '\0';
    return true;
  }
  [[nodiscard]] const char* text() const { return text_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  char text_[GroupLimit::kMaxPath + 32] = {};  // and a file's name
  std::size_t size_ = 0;
};

// The number in the folder's file; kNone where there is no such file, or it says "max".
std::uint64_t read_number(std::string_view folder, const char* name) {
  Path path(folder);
  std::string_view line;
  if (name == nullptr || !path.add("/") || !path.add(name)) {
    return GroupLimit::kNone;
  }
  os::LineReader file(path.text());
  const bool number = file.next(line) && !line.empty() && line[0] >= '0' && line[0] <= '9';
  return number ? os::number_in(line) : GroupLimit::kNone;
}

// The lists alone hold too much: memory that was freed lazily stays there when it is used again.
// So the page cache is no more than all file pages without tmpfs.
std::uint64_t page_cache(std::string_view folder, const Names& names) {
  Path path(folder);
  if (!path.add("/memory.stat")) {
    return 0;
  }
  std::uint64_t listed = 0;
  std::uint64_t pages = UINT64_MAX;
  std::uint64_t shared = 0;
  os::LinesOf<64> file(path.text());
  for (std::string_view line; file.next(line);) {
    if (line.starts_with(names.lists[0]) || line.starts_with(names.lists[1])) {
      listed += os::number_in(line);
    } else if (line.starts_with(names.pages)) {
      pages = os::number_in(line);
    } else if (line.starts_with(names.shared)) {
      shared = os::number_in(line);
    }
  }
  return std::min(listed, sub_sat(pages, shared));
}

// What the folder's own group leaves, its parents apart. A limit that no machine has is none.
GroupLimit::Room room_in(std::string_view folder, const Names& names) {
  const std::uint64_t limit =
      std::min(read_number(folder, names.limits[0]), read_number(folder, names.limits[1]));
  if (limit > os::physical_memory()) {
    return {};
  }
  const std::uint64_t used = read_number(folder, names.used);
  if (used == GroupLimit::kNone) {
    return {.limit = limit, .left = limit};
  }
  const std::uint64_t held = sub_sat(used, page_cache(folder, names));
  return {.limit = limit, .left = sub_sat(limit, held)};
}

// Of "some avg10=12.34 avg60=...": the whole hundredths of the last ten seconds in which a task has
// waited. 0 where there is no such line.
std::uint64_t waited(const char* file) {
  constexpr std::string_view kBefore = "some avg10=";
  os::LineReader lines(file);
  std::string_view line;
  if (!lines.next(line) || !line.starts_with(kBefore)) {
    return 0;
  }
  line.remove_prefix(kBefore.size());
  return os::number_in(line.substr(0, line.find('.')));
}

// True if the line names a group that has the memory controller: "4:memory:/a" or, version 2,
// "0::/a".
bool has_memory(std::string_view controllers) {
  constexpr std::string_view kMemory = "memory";
  while (!controllers.empty()) {
    const std::string_view first = controllers.substr(0, controllers.find(','));
    if (first == kMemory) {
      return true;
    }
    controllers.remove_prefix(std::min(controllers.size(), first.size() + 1));
  }
  return false;
}

}  // namespace

void GroupLimit::find(const char* groups, const char* folders) {
  const os::KeepErrno keep_errno;
  path_[0] = '\0';
  os::LinesOf<kMaxGroupLine> file(groups);
  for (std::string_view line; file.next(line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos || line.size() == kMaxGroupLine) {
      continue;
    }
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool old = has_memory(controllers);
    if (!old && !controllers.empty()) {
      continue;
    }
    Path found(folders);
    const bool fits = !old || found.add("/memory");
    const std::size_t root = found.size();
    std::string_view group = line.substr(second + 1);
    group = group == "/" || group.starts_with("/..") ? std::string_view() : group;
    if (fits && found.add(group) && found.size() < sizeof path_) {
      std::memcpy(path_, found.text(), found.size() + 1);
      root_ = root;
      second_ = !old;
    }
    if (old) {
      break;  // where version 1 has the memory, version 2 has none
    }
  }
}

GroupLimit::Room GroupLimit::look() const {
  const os::KeepErrno keep_errno;
  const Names& names = second_ ? kSecond : kFirst;
  Room least;
  for (std::size_t size = std::strlen(path_); size >= root_ && size != 0;) {
    const Room room = room_in({path_, size}, names);
    least.limit = std::min(least.limit, room.limit);
    least.left = std::min(least.left, room.left);
    if (size == root_) {
      break;
    }
    do {
      --size;
    } while (size > root_ && path_[size] != '/');
  }
  return least;
}

bool GroupLimit::pressed(const char* machine) const {
  const os::KeepErrno keep_errno;
  Path own(path_);
  const bool groups = second_ && path_[0] != '\0' && own.add("/memory.pressure");
  return waited(groups ? own.text() : machine) >= tuning::kPressure;
}

}  // namespace memo
