// See plan_cache.h: what is done with the folder and its files. Cold.
#include "src/io/plan_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "src/base/keep_errno.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/io/plan_bytes.h"
#include "src/io/plan_cache_bytes.h"
#include "src/io/plan_records.h"
#include "src/io/replace_file.h"
#include "src/io/shared_file.h"

namespace memo {
namespace {

constexpr std::string_view kHalfWritten = ".tmp";

// A file's path in the folder; false, with errno, if it is too long.
class StoredPath {
 public:
  StoredPath(const char* folder, const char* name) {
    const int length = std::snprintf(text_, sizeof text_, "%s/%s", folder, name);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof text_) {
      errno = ENAMETOOLONG;
      text_[0] = '\0';
    }
  }
  StoredPath(const char* folder, const PlanName& name) : StoredPath(folder, Text(name).value) {}
  explicit operator bool() const { return text_[0] != '\0'; }
  [[nodiscard]] const char* get() const { return text_; }

 private:
  struct Text {
    explicit Text(const PlanName& name) { write_name(name, value); }
    char value[kCachedNameRoom] = "";
  };
  char text_[4096] = "";
};

// The plan of that schedule need not be written where `there` is.
bool is_as_good(const Schedule& there, const SavedPlan& plan) {
  const std::uint64_t height = plan.schedule->height;
  const bool lowest = plan.lowest || plan.schedule->lowest;
  return there.height < height || (there.height == height && (there.lowest || !lowest));
}

// The names of a folder's files, one at a time.
class Folder {
 public:
  explicit Folder(const char* path) : folder_(opendir(path)) {}
  ~Folder() {
    if (folder_ != nullptr) {
      closedir(folder_);
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  // nullptr at the end, and where it cannot be read.
  const char* next() {
    const dirent* entry = folder_ != nullptr ? readdir(folder_) : nullptr;
    return entry != nullptr ? entry->d_name : nullptr;
  }

 private:
  DIR* folder_;
};

bool starts_as(const char* name, std::uint64_t stream) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(stream));
  return std::strncmp(name, digits, 16) == 0;
}

// The plans of the stream that lie in the folder. Nearly always none or one.
std::vector<PlanName> names_of_stream(const char* folder, std::uint64_t stream) {
  std::vector<PlanName> names;
  Folder files(folder);
  for (const char* text = nullptr; (text = files.next()) != nullptr;) {
    PlanName name;
    if (starts_as(text, stream) && parse_name(text, name)) {
      names.push_back(name);
    }
  }
  return names;
}

// The folder and those that it lies in; what is there stays. A folder of the user's own cache is
// made for the user alone.
void make_folders(const char* folder) {
  char path[4096];
  const std::size_t length = std::strlen(folder);
  if (length >= sizeof path) {
    return;
  }
  std::memcpy(path, folder, length + 1);
  for (std::size_t i = 1; i <= length; ++i) {
    if (path[i] == '/' || path[i] == '\0') {
      const char kept = path[i];
      path[i] = '\0';
      mkdir(path, 0755);
      path[i] = kept;
    }
  }
}

struct Aged {
  PlanName name;
  Nanos used;  // since 1970
  std::uint64_t bytes = 0;
};

// All plans of the folder; what killed writers left is removed meanwhile.
std::vector<Aged> aged_plans(const char* folder, Pruned& pruned) {
  std::vector<Aged> plans;
  Folder files(folder);
  for (const char* text = nullptr; (text = files.next()) != nullptr;) {
    const StoredPath path(folder, text);
    const std::string_view view = text;
    Aged plan;
    const bool half = view.ends_with(kHalfWritten) && view.find(".plan.") != std::string_view::npos;
    struct stat status{};
    if ((!half && !parse_name(view, plan.name)) || stat(path.get(), &status) != 0) {
      continue;
    }
    plan.used = os::nanoseconds_of(status.st_mtim);
    plan.bytes = static_cast<std::uint64_t>(status.st_size);
    if (!half) {
      plans.push_back(plan);
    } else if (plan.used + tuning::kCacheRest * os::kSecond < file_time() &&
               unlink(path.get()) == 0) {
      ++pruned.left_over;
    }
  }
  return plans;
}

}  // namespace

void list_cache(const RecursionGuard&, const char* folder,
                void (*visit)(void* context, const PlanName& name), void* context) noexcept {
  Folder files(folder);
  for (const char* text = nullptr; (text = files.next()) != nullptr;) {
    PlanName name;
    if (parse_name(text, name)) {
      visit(context, name);
    }
  }
}

std::string_view doubt_about_cache(const char* folder, Trust trust) noexcept {
  try {
    struct stat status{};
    if (stat(folder, &status) != 0) {
      return {};
    }
    if (!S_ISDIR(status.st_mode)) {
      return "it is no directory";
    }
    // A ConfigMap is mounted so: open to all by its mode, but nobody can write it.
    struct statvfs system{};
    if (statvfs(folder, &system) == 0 && (system.f_flag & ST_RDONLY) != 0) {
      status.st_mode &= ~static_cast<mode_t>(S_IWGRP | S_IWOTH);
    }
    return doubt(status, trust);
  } catch (...) {
    return "there is not enough memory to look at it";
  }
}

bool load_cached(const RecursionGuard&, const char* folder, const PlanName& name,
                 std::uint64_t most_height, Trust trust, Cached& cached,
                 std::string_view* problem) noexcept {
  *problem = {};
  try {
    const StoredPath path(folder, name);
    std::vector<char> bytes;
    if (!path || access(path.get(), F_OK) != 0) {
      return false;
    }
    *problem = read_plan_bytes(path.get(), trust, bytes);
    return problem->empty() && parse_cached(bytes, name, most_height, cached, problem);
  } catch (...) {
    *problem = "there is not enough memory for it";
    return false;
  }
}

CacheTurn::CacheTurn(const char* folder) {
  constexpr int kTries = 1000;
  constexpr Nanos kPause = 2 * os::kMillisecond;
  make_folders(folder);
  folder_ = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; folder_ >= 0 && flock(folder_, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK || i == kTries || !os::rest(kPause)) {
      break;
    }
  }
}

CacheTurn::~CacheTurn() {
  const os::KeepErrno keep_errno;
  if (folder_ >= 0) {
    flock(folder_, LOCK_UN);  // a child that was forked meanwhile has the folder open as well
    close(folder_);
  }
}

bool save_cached(const RecursionGuard& guard, const CacheTurn&, const char* folder,
                 const SavedPlan& plan, const PlanName& name, const CacheRecord& record,
                 Trust trust) noexcept {
  try {
    const StoredPath path(folder, name);
    if (!path) {
      return false;
    }
    const std::vector<PlanName> before = names_of_stream(folder, name.stream);
    for (const PlanName& other : before) {
      Cached cached;
      std::string_view problem;
      if (plan.schedule->symbolic == nullptr &&
          load_cached(guard, folder, other, std::numeric_limits<std::uint64_t>::max(), trust,
                      cached, &problem) &&
          is_as_good(*cached.plan.plan, plan)) {
        return true;
      }
    }
    const auto* trailer = reinterpret_cast<const char*>(&record);
    const std::vector<char> bytes =
        format_plan(plan, tuning::kMaxPlanBytes, {trailer, sizeof record});
    if (bytes.empty()) {
      return true;  // it is larger than a file may be
    }
    if (!replace_file(path.get(),
                      [&](int file) { return write_all(file, bytes.data(), bytes.size()); })) {
      return false;
    }
    for (const PlanName& other : before) {
      if (other != name) {
        remove_cached(folder, other);
      }
    }
    return true;
  } catch (...) {
    errno = ENOMEM;
    return false;
  }
}

void note_use(const char* folder, const PlanName& name) noexcept {
  const StoredPath path(folder, name);
  struct stat status{};
  if (path && stat(path.get(), &status) == 0 &&
      os::nanoseconds_of(status.st_mtim) + tuning::kCacheRest * os::kSecond < file_time()) {
    utimensat(AT_FDCWD, path.get(), nullptr, 0);
  }
}

void remove_cached(const char* folder, const PlanName& name) noexcept {
  if (const StoredPath path(folder, name); path) {
    unlink(path.get());
  }
}

Pruned prune_cache(const RecursionGuard&, const char* folder, const CacheLimits& limits) noexcept {
  Pruned pruned;
  try {
    std::vector<Aged> plans = aged_plans(folder, pruned);
    std::sort(plans.begin(), plans.end(),
              [](const Aged& a, const Aged& b) { return a.used > b.used; });
    std::uint64_t kept = 0;
    std::uint64_t bytes = 0;
    const Nanos time = file_time();
    for (const Aged& plan : plans) {
      const std::uint64_t unused = time > plan.used ? (time - plan.used) / os::kSecond : 0;
      if (kept < limits.plans && bytes + plan.bytes <= limits.bytes && unused < limits.unused) {
        ++kept;
        bytes += plan.bytes;
      } else if (const StoredPath path(folder, plan.name); path && unlink(path.get()) == 0) {
        ++pruned.plans;
        pruned.bytes += plan.bytes;
      }
    }
  } catch (...) {
    return pruned;  // no memory to sort them: the next to save has some
  }
  return pruned;
}

}  // namespace memo
