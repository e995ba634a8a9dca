// See plan_cache_name.h. Cold.
#include "src/io/plan_cache_name.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/follow/steps.h"

namespace memo {
namespace {

constexpr std::uint64_t kNameVersion = 2;  // of what the names of streams are made of
constexpr std::size_t kDigits = 16;
constexpr std::string_view kEnding = ".plan";
constexpr std::size_t kNameLength = (kDigits + 1) * (1 + kPlanKeys) - 1 + kEnding.size();
static_assert(kNameLength < kCachedNameRoom);

bool parse_digits(std::string_view text, std::uint64_t& value) {
  return text.find_first_not_of("0123456789abcdef") == text.npos &&
         std::from_chars(text.data(), text.data() + text.size(), value, 16).ec == std::errc();
}

// Where the rotation begins that is the least of all in lexical order. O(n).
// Source: the algorithm of Booth, 1980, in the form of two pointers.
std::size_t least_rotation(const std::vector<std::uint64_t>& words) {
  const std::size_t count = words.size();
  std::size_t best = 0;
  std::size_t other = 1;
  std::size_t equal = 0;
  while (best < count && other < count && equal < count) {
    const std::uint64_t a = words[(best + equal) % count];
    const std::uint64_t b = words[(other + equal) % count];
    if (a == b) {
      ++equal;
      continue;
    }
    (a > b ? best : other) += equal + 1;
    other += best == other ? 1 : 0;
    equal = 0;
  }
  return std::min(best, other);
}

// A loop is the same wherever it begins; of a parametric plan, all sizes follow from where it
// begins.
std::uint64_t stream_of(const SavedPlan& plan) {
  const Schedule& schedule = *plan.schedule;
  MEMO_DCHECK(schedule.count != 0);
  const bool parametric = schedule.symbolic != nullptr;
  std::vector<std::uint64_t> words(schedule.count);
  for (std::uint32_t i = 0; i < schedule.count; ++i) {
    const Step& step = schedule.steps[i];
    const std::uint64_t parts[] = {parametric ? step.site : step.size, step.alignment_log2};
    words[i] = XXH3_64bits(parts, sizeof parts);
  }
  if (!parametric) {
    std::rotate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(least_rotation(words)),
                words.end());
  }
  const std::uint64_t head[] = {kNameVersion, plan.iteration, parametric ? 1U : 0U};
  const std::uint64_t seed = XXH3_64bits(head, sizeof head);
  const std::uint64_t hash =
      XXH3_64bits_withSeed(words.data(), words.size() * sizeof words[0], seed);
  return hash != 0 ? hash : 1;
}

std::uint64_t key_at(const Schedule& schedule, std::uint64_t step) {
  MEMO_DCHECK(step < schedule.count);
  CallWindow window;
  for (std::uint32_t i = 0; i < kKeyCalls; ++i) {
    const Step& call = schedule.steps[(step + i) % schedule.count];
    window.add(call.size, call.alignment_log2);
  }
  return window.key();
}

void copy_text(std::string_view from, char* to, std::size_t room) {
  const std::size_t used = std::strlen(to);
  const std::size_t length = std::min(from.size(), room - used - 1);
  std::memcpy(to + used, from.data(), length);
  to[used + length] = '\0';
}

// The words of the command line, of which each ends with a zero; its first 4095 bytes.
class CommandLine {
 public:
  CommandLine() {
    const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t count = file < 0 ? 0 : read(file, text_, sizeof text_ - 1);
    if (file >= 0) {
      close(file);
    }
    end_ = text_ + std::max<ssize_t>(count, 0);
  }
  // nullptr at the end.
  const char* next() {
    if (at_ >= end_) {
      return nullptr;
    }
    const char* const word = at_;
    at_ += std::strlen(word) + 1;
    return word;
  }

 private:
  char text_[4096] = "";
  const char* at_ = text_;
  const char* end_ = text_;
};

std::uint32_t hash(std::string_view text, std::uint64_t seed) {
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(text.data(), text.size(), seed));
}

// The program; behind options, the file that it is given or the module that an interpreter is to
// run; and its other arguments.
void describe_command(CacheRecord& record) {
  CommandLine line;
  const char* const program = line.next();
  copy_text(last_part(program != nullptr ? program : ""), record.program, sizeof record.program);
  bool named = false;
  for (const char* word = line.next(); word != nullptr; word = line.next()) {
    const std::string_view text = word;
    const bool option = text.starts_with('-');
    const char* const module = !named && text == "-m" ? line.next() : nullptr;
    if (module != nullptr) {
      copy_text(" -m ", record.program, sizeof record.program);
      copy_text(module, record.program, sizeof record.program);
    } else if (!named && !option && access(word, F_OK) == 0) {
      copy_text(" ", record.program, sizeof record.program);
      copy_text(last_part(text), record.program, sizeof record.program);
    } else {
      record.arguments = hash(text, record.arguments);
    }
    const char* const code = !named && text == "-c" ? line.next() : nullptr;
    record.code = code != nullptr ? hash(code, 0) : record.code;
    named = named || !option || module != nullptr || code != nullptr;
  }
}

}  // namespace

void write_name(const PlanName& name, char (&text)[kCachedNameRoom]) {
  static_assert(kPlanKeys == 4);
  std::snprintf(
      text, sizeof text, "%016llx-%016llx-%016llx-%016llx-%016llx%.*s",
      static_cast<unsigned long long>(name.stream), static_cast<unsigned long long>(name.keys[0]),
      static_cast<unsigned long long>(name.keys[1]), static_cast<unsigned long long>(name.keys[2]),
      static_cast<unsigned long long>(name.keys[3]), static_cast<int>(kEnding.size()),
      kEnding.data());
}

bool parse_name(std::string_view text, PlanName& name) {
  if (text.size() != kNameLength || !text.ends_with(kEnding) ||
      !parse_digits(text.substr(0, kDigits), name.stream)) {
    return false;
  }
  for (std::size_t i = 0; i < kPlanKeys; ++i) {
    const std::size_t at = (i + 1) * (kDigits + 1);
    if (text[at - 1] != '-' || !parse_digits(text.substr(at, kDigits), name.keys[i])) {
      return false;
    }
  }
  return name.stream != 0 && name.keys[0] != 0;
}

PlanName name_of(const SavedPlan& plan, const Origin& origin) noexcept {
  const Schedule& schedule = *plan.schedule;
  PlanName name;
  try {
    name.stream = stream_of(plan);
  } catch (...) {
    return name;
  }
  name.keys[0] = origin.beginning;
  name.keys[1] = origin.program;
  if (schedule.symbolic == nullptr) {
    for (std::uint32_t i = 0; i < kPlanKeys; ++i) {
      name.keys[i] = key_at(schedule, std::uint64_t{schedule.count} * i / kPlanKeys);
    }
  }
  return name;
}

CacheRecord describe_maker() {
  CacheRecord record;
  describe_command(record);
  utsname system{};
  if (uname(&system) == 0) {
    copy_text(system.machine, record.machine, sizeof record.machine);
  }
  copy_text(MEMO_VERSION, record.library, sizeof record.library);
  record.made = static_cast<std::uint64_t>(std::time(nullptr));
  return record;
}

std::uint64_t key_of_program(const CacheRecord& record) {
  const std::uint64_t key = XXH3_64bits(record.program, std::strlen(record.program));
  return key != 0 ? key : 1;
}

std::size_t user_cache(char* path, std::size_t room) {
  const char* cache = secure_getenv("XDG_CACHE_HOME");
  const char* home = secure_getenv("HOME");
  const bool has_cache = cache != nullptr && cache[0] == '/';  // others are to be passed over
  if (!has_cache && (home == nullptr || home[0] != '/')) {
    return 0;
  }
  const int length = std::snprintf(path, room, "%s%s/memomalloc/plans", has_cache ? cache : home,
                                   has_cache ? "" : "/.cache");
  return length < 0 ? room : static_cast<std::size_t>(length);
}

void name_cache(Options& options) {
  if (options.PLANS.view() != "1") {
    return;
  }
  char path[sizeof options.PLANS.value] = "";
  const std::size_t length = user_cache(path, sizeof path);
  if (length == 0 || length >= sizeof path) {
    Line() << "MEMOMALLOC_PLANS=1 has no effect: "
           << (length == 0 ? "neither XDG_CACHE_HOME nor HOME names a folder"
                           : "the name of the cache folder is too long")
           << "; set it to a directory";
    path[0] = '\0';
  }
  std::memcpy(options.PLANS.value, path, sizeof path);
}

}  // namespace memo
