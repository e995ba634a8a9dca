#include "src/io/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/io/plan_records.h"
#include "src/io/replace_file.h"
#include "src/serve/symbolic.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace memo {
namespace {

constexpr char kMagic[8] = {'M', 'E', 'M', 'O', 'P', 'L', 'A', 'N'};
constexpr std::string_view kForeign = "it is no plan file";
constexpr std::uint32_t kVersion = 2;
constexpr std::uint64_t kMostBytes = 256ULL << 20;  // of a file; a plan of 10^5 steps takes 3.2 MB

// Little-endian and without padding, as every supported machine has it in memory.
struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t plans;
  char library[16];        // the library that wrote it, for the message
  std::uint64_t checksum;  // XXH3 of everything behind the header
};
static_assert(sizeof(FileHeader) == 40);

bool read_file(const char* path, std::vector<char>& bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return false;
  }
  struct stat status{};
  bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
              static_cast<std::uint64_t>(status.st_size) <= kMostBytes;
  if (good) {
    bytes.resize(static_cast<std::size_t>(status.st_size));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = read(file, bytes.data() + done, bytes.size() - done);
      if (count <= 0) {
        break;
      }
      done += static_cast<std::size_t>(count);
    }
    good = done == bytes.size();
  }
  close(file);
  return good;
}

std::string_view check(const FileHeader& header, std::span<const char> rest) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return kForeign;
  }
  if (header.version != kVersion) {
    return "another version of the library wrote it";
  }
  if (header.checksum != XXH3_64bits(rest.data(), rest.size())) {
    return "it is damaged";
  }
  return {};
}

}  // namespace

bool save_plans(const RecursionGuard&, const char* path,
                std::span<const SavedPlan> plans) noexcept {
  try {
    std::vector<char> rest;
    for (const SavedPlan& plan : plans) {
      append_plan(rest, plan);
    }
    FileHeader header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kVersion;
    header.plans = static_cast<std::uint32_t>(plans.size());
    std::strncpy(header.library, MEMO_VERSION, sizeof header.library - 1);
    header.checksum = XXH3_64bits(rest.data(), rest.size());
    return replace_file(path, [&](int file) {
      return write_all(file, &header, sizeof header) && write_all(file, rest.data(), rest.size());
    });
  } catch (...) {
    errno = ENOMEM;
    return false;
  }
}

bool is_foreign(const char* path) noexcept {
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return false;
  }
  char head[sizeof kMagic];
  const ssize_t count = read(file, head, sizeof head);
  close(file);
  return count > 0 && std::memcmp(head, kMagic, static_cast<std::size_t>(count)) != 0;
}

void free_plan(const Schedule* schedule) noexcept {
  std::free(const_cast<SymbolicPlan*>(schedule->symbolic));
  std::free(const_cast<Schedule*>(schedule));
}

std::uint32_t load_plans(const RecursionGuard&, const char* path, std::uint64_t most_height,
                         std::span<SavedPlan> plans, std::string_view* problem) noexcept {
  *problem = {};
  std::uint32_t loaded = 0;
  try {
    std::vector<char> bytes;
    if (access(path, F_OK) != 0) {
      return 0;
    }
    FileHeader header{};
    if (!read_file(path, bytes) || bytes.size() < sizeof header) {
      *problem = is_foreign(path) ? kForeign : "it cannot be read, or is cut short";
      return 0;
    }
    Reader reader(bytes);
    reader.read(header);
    *problem = check(header, std::span(bytes).subspan(sizeof header));
    while (problem->empty() && loaded < header.plans && loaded < plans.size()) {
      if (read_plan(reader, most_height, plans[loaded])) {
        ++loaded;
      } else {
        *problem = "a plan in it makes no sense here (its slab may be over the limit)";
      }
    }
  } catch (...) {
    *problem = "there is not enough memory for it";
  }
  while (!problem->empty() && loaded > 0) {  // as a whole or not at all
    free_plan(plans[--loaded].schedule);
  }
  return loaded;
}

}  // namespace memo
