#include "src/io/plan_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "src/io/replace_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace memo {
namespace {

constexpr char kMagic[8] = {'M', 'E', 'M', 'O', 'P', 'L', 'A', 'N'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMostBytes = 256ULL << 20;  // of a file; a plan of 10^5 steps takes 3.2 MB

// Little-endian and without padding, as every supported machine has it in memory.
struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t plans;
  char library[16];        // the library that wrote it, for the message
  std::uint64_t checksum;  // XXH3 of everything behind the header
};
struct PlanHeader {
  std::uint64_t height;
  std::uint64_t lower_bound;
  std::uint32_t count;
  std::uint32_t iteration;
};
struct StepRecord {
  std::uint64_t size;
  std::uint64_t offset;
  std::uint64_t site;
  std::uint64_t alignment_log2;
};
static_assert(sizeof(FileHeader) == 40 && sizeof(PlanHeader) == 24 && sizeof(StepRecord) == 32);

template <typename Record>
void append(std::vector<char>& bytes, const Record& record) {
  const auto* raw = reinterpret_cast<const char*>(&record);
  bytes.insert(bytes.end(), raw, raw + sizeof record);
}

// Reads records one after the other; false at the end of the bytes.
class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : bytes_(bytes) {}
  template <typename Record>
  bool read(Record& record) {
    if (bytes_.size() < sizeof record) {
      return false;
    }
    std::memcpy(&record, bytes_.data(), sizeof record);
    bytes_ = bytes_.subspan(sizeof record);
    return true;
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const char> bytes_;
};

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

// A step that the server could follow; whether it is right, only serving tells.
bool sound(const StepRecord& step, std::uint64_t height) {
  if (step.size == 0 || step.alignment_log2 > 63) {
    return false;
  }
  return step.offset == kUnplanned ||
         (step.offset % kGranule == 0 && step.offset < height && step.size <= height - step.offset);
}

Schedule* read_plan(Reader& reader, std::uint64_t most_height, SavedPlan& plan) {
  PlanHeader header{};
  if (!reader.read(header) || header.count == 0 || header.iteration == 0 ||
      header.iteration > header.count || header.height > most_height ||
      header.height % kGranule != 0 || header.count > reader.left() / sizeof(StepRecord)) {
    return nullptr;
  }
  auto* memory = static_cast<char*>(std::malloc(sizeof(Schedule) + header.count * sizeof(Step)));
  if (memory == nullptr) {
    return nullptr;
  }
  auto* steps = reinterpret_cast<Step*>(memory + sizeof(Schedule));
  for (std::uint32_t i = 0; i < header.count; ++i) {
    StepRecord record{};
    if (!reader.read(record) || !sound(record, header.height)) {
      std::free(memory);
      return nullptr;
    }
    new (steps + i) Step{record.size, record.offset, record.site,
                         static_cast<std::uint8_t>(record.alignment_log2), 0};
  }
  plan.iteration = header.iteration;
  return new (memory) Schedule{steps, header.count, header.height, header.lower_bound, 0, true};
}

std::string_view check(const FileHeader& header, std::span<const char> rest) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return "it is no plan file";
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
      const Schedule& schedule = *plan.schedule;
      append(rest,
             PlanHeader{schedule.height, schedule.lower_bound, schedule.count, plan.iteration});
      for (std::uint32_t i = 0; i < schedule.count; ++i) {
        const Step& step = schedule.steps[i];
        append(rest, StepRecord{step.size, step.offset, step.site, step.alignment_log2});
      }
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

std::uint32_t load_plans(const RecursionGuard&, const char* path, std::uint64_t most_height,
                         std::span<SavedPlan> plans, std::string_view* problem) noexcept {
  try {
    *problem = {};
    std::vector<char> bytes;
    if (access(path, F_OK) != 0) {
      return 0;
    }
    FileHeader header{};
    if (!read_file(path, bytes) || bytes.size() < sizeof header) {
      *problem = "it cannot be read, or is no plan file";
      return 0;
    }
    Reader reader(bytes);
    reader.read(header);
    *problem = check(header, std::span(bytes).subspan(sizeof header));
    std::uint32_t loaded = 0;
    while (problem->empty() && loaded < header.plans && loaded < plans.size()) {
      plans[loaded].schedule = read_plan(reader, most_height, plans[loaded]);
      if (plans[loaded].schedule == nullptr) {
        *problem = "a plan in it makes no sense here (its slab may be over the limit)";
      } else {
        ++loaded;
      }
    }
    while (!problem->empty() && loaded > 0) {  // as a whole or not at all
      std::free(const_cast<Schedule*>(plans[--loaded].schedule));
    }
    return loaded;
  } catch (...) {
    *problem = "there is not enough memory for it";
    return 0;
  }
}

}  // namespace memo
