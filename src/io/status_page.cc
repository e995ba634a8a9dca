#include "src/io/status_page.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "src/base/file_map.h"
#include "src/io/replace_file.h"

// glibc's own, which no program may define.
extern "C" char* __progname;  // NOLINT(readability-identifier-naming)

namespace memo {
namespace {

constexpr std::string_view kMagic = "memopage";
constexpr char kSuffix[] = ".page";
constexpr char kDevicesSuffix[] = ".gpu";

std::uint64_t sum_of(const StatusBody& body) {
  static_assert(sizeof body % sizeof(std::uint64_t) == 0);
  std::uint64_t sum = kStatusLayout;
  for (std::size_t at = 0; at < sizeof body; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(&body) + at, sizeof word);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15U;
    sum ^= sum >> 29U;
  }
  return sum;
}

// Plain letters up to a zero.
template <std::size_t kRoom>
bool is_text(const char (&text)[kRoom]) {
  for (const char letter : text) {
    if (letter == '\0') {
      return true;
    }
    if (letter < ' ' || letter > '~') {
      return false;
    }
  }
  return false;
}

// No process has counted so far, or holds so much: sums of some such numbers still fit.
constexpr std::uint64_t kMaxNumber = 1ULL << 56U;

bool believable(const StatusLane& lane) {
  bool good = is_text(lane.phase);
#define LANE(name, help) good = good && lane.name < kMaxNumber;
#include "src/io/status_page_numbers.def"
  return good;
}

bool believable(const StatusPlan& plan) {
  bool good = true;
#define PLAN(name, help) good = good && plan.name < kMaxNumber;
#include "src/io/status_page_numbers.def"
  return good;
}

bool believable(const StatusDevice& device) {
  bool good = is_text(device.phase) && device.number < kMaxNumber;
#define DEVICE(name, type, help) good = good && device.name < kMaxNumber;
#include "src/io/status_page_numbers.def"
  return good;
}

bool believable(const StatusBody& body) {
  constexpr double kMaxSeconds = 1e9;
  bool good = std::isfinite(body.plan_seconds) && body.plan_seconds >= 0 &&
              body.plan_seconds <= kMaxSeconds && body.opened_at <= body.written_at &&
              body.written_at < 1ULL << 63U && body.pid != 0 && body.pid < 1ULL << 31U &&
              body.parent_pid < 1ULL << 31U && body.pool.bytes < kMaxNumber &&
              body.slabs.bytes < kMaxNumber && is_text(body.version) && is_text(body.process) &&
              is_text(body.phase);
#define SHARES(name, help) good = good && body.now.name < kMaxNumber;
#define PROCESS(name, help) good = good && body.name < kMaxNumber;
#include "src/io/status_page_numbers.def"
  for (const std::uint64_t number : body.counters) {
    good = good && number < kMaxNumber;
  }
  for (std::uint64_t i = 0; good && i < body.lane_rows; ++i) {
    good = believable(body.lanes[i]) && body.lanes[i].plan <= body.plan_rows;
  }
  for (std::uint64_t i = 0; good && i < body.plan_rows; ++i) {
    good = believable(body.plans[i]);
  }
  for (std::uint64_t i = 0; good && i < body.device_rows; ++i) {
    good = believable(body.devices[i]);
  }
  return good;
}

}  // namespace

void describe_process(StatusBody& body) {
  body.pid = static_cast<std::uint64_t>(getpid());
  body.start = start_of(getpid());
  body.space = number_space();
  put_text(body.version, MEMO_VERSION);
  put_text(body.process, __progname);
}

void seal_page(StatusPage& page) {
  kMagic.copy(page.magic, sizeof page.magic);
  page.layout = kStatusLayout;
  page.sum = sum_of(page.body);
}

std::string_view check_page(const StatusPage& page) {
  if (std::string_view(page.magic, sizeof page.magic) != kMagic) {
    return "it is no page of statistics";
  }
  if (page.layout != kStatusLayout) {
    return "another version of memomalloc has written it";
  }
  if (page.sum != sum_of(page.body)) {
    return "it is not whole";
  }
  if (page.body.lane_rows > kLaneRows || page.body.plan_rows > kPlanRows ||
      page.body.device_rows > kDeviceRows || !believable(page.body)) {
    return "it holds what cannot be";
  }
  return "";
}

bool status_folder(std::string_view runtime, uid_t owner, char* path, std::size_t room) {
  const bool own = runtime.starts_with('/');
  const int length =
      own ? std::snprintf(path, room, "%.*s/memomalloc", static_cast<int>(runtime.size()),
                          runtime.data())
          : std::snprintf(path, room, "/tmp/memomalloc-%lu", static_cast<unsigned long>(owner));
  return length > 0 && static_cast<std::size_t>(length) < room;
}

int open_status_folder(const char* path, uid_t owner, bool make) {
  if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
    return -1;
  }
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status{};
  if (folder < 0) {
    return -1;
  }
  if (fstat(folder, &status) != 0 || status.st_uid != owner || (status.st_mode & 077) != 0) {
    close(folder);
    errno = EACCES;
    return -1;
  }
  return folder;
}

std::uint64_t start_of(pid_t pid) {
  constexpr int kStart = 22;
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  char text[1024];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t count = file < 0 ? 0 : read(file, text, sizeof text);
  if (file >= 0) {
    close(file);
  }
  std::string_view rest(text, count > 0 ? static_cast<std::size_t>(count) : 0);
  // The second field is a name that may hold blanks and brackets.
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || rest.substr(name_end).starts_with(") Z")) {
    return 0;
  }
  rest.remove_prefix(name_end);
  for (int field = 2; field < kStart; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) {
      return 0;
    }
    rest.remove_prefix(blank + 1);
  }
  std::uint64_t start = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), start);
  return start;
}

std::uint64_t number_space() {
  struct stat space{};
  return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

void format_name(const StatusName& name, char (&text)[kStatusNameRoom]) {
  std::snprintf(text, sizeof text, "%llu-%llu-%llu%s", static_cast<unsigned long long>(name.pid),
                static_cast<unsigned long long>(name.start),
                static_cast<unsigned long long>(name.space),
                name.devices ? kDevicesSuffix : kSuffix);
}

bool parse_name(std::string_view text, StatusName& name) {
  const auto number = [&text](std::uint64_t& value, std::string_view end) {
    const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const auto digits = static_cast<std::size_t>(after - text.data());
    if (error != std::errc() || !text.substr(digits).starts_with(end)) {
      return false;
    }
    text.remove_prefix(digits + end.size());
    return true;
  };
  name.devices = text.ends_with(kDevicesSuffix);
  return number(name.pid, "-") && number(name.start, "-") &&
         number(name.space, name.devices ? kDevicesSuffix : kSuffix) && text.empty() &&
         name.pid != 0 && name.pid < 1ULL << 31U;
}

StatusFile* make_page(int folder, const char* name, const StatusFile& content) {
  unlinkat(folder, name, 0);
  const int file = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    return nullptr;
  }
  void* mapped =
      write_all(file, &content, sizeof content) ? os::map_file(file, sizeof content) : nullptr;
  const int reason = errno;
  close(file);
  if (mapped == nullptr) {
    unlinkat(folder, name, 0);
  }
  errno = reason;
  return static_cast<StatusFile*>(mapped);
}

StatusFile* make_page(const char* runtime, const StatusFile& content, char* path,
                      std::size_t room) {
  char name[kStatusNameRoom];
  const StatusBody& body = content.page.body;
  format_name({body.pid, body.start, body.space, body.device_rows != 0}, name);
  for (const char* below : {runtime, ""}) {
    if (!status_folder(below, geteuid(), path, room - sizeof name)) {
      continue;
    }
    const int folder = open_status_folder(path, geteuid(), true);
    if (folder < 0) {
      continue;
    }
    StatusFile* made = make_page(folder, name, content);
    const int reason = errno;
    close(folder);
    errno = reason;
    if (made != nullptr) {
      std::strcat(path, "/");
      std::strcat(path, name);
      return made;
    }
  }
  return nullptr;
}

int open_page(int folder, const char* name, uid_t owner, bool write) {
  const int file =
      openat(folder, name, (write ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat status{};
  if (file < 0) {
    return -1;
  }
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != owner ||
      (status.st_mode & 077) != 0 || status.st_size != sizeof(StatusFile)) {
    close(file);
    errno = EACCES;
    return -1;
  }
  return file;
}

}  // namespace memo
