#include "src/io/export.h"

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "src/base/message.h"
#include "src/io/replace_file.h"
#include "src/io/trace_csv.h"

// glibc's own, which no program may define.
extern "C" char* __progname;  // NOLINT(readability-identifier-naming)

namespace memo {
namespace {

// Appends to a buffer of fixed size, counting what did not fit.
class Text {
 public:
  Text(char* buffer, std::size_t size) : buffer_(buffer), size_(size) {}
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::size_t room = length_ < size_ ? size_ - length_ : 0;
    const int count =
        std::vsnprintf(room != 0 ? buffer_ + length_ : nullptr, room, format, arguments);
    va_end(arguments);
    length_ += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  [[nodiscard]] std::size_t length() const { return length_; }

 private:
  char* buffer_;
  std::size_t size_;
  std::size_t length_ = 0;
};

using Number = unsigned long long;

constexpr std::size_t kJsonRoom = 8192;

constexpr std::string_view kFallback = "fallback_";

// True for the counters of single reasons, as against fallback_allocations and fallback_bytes.
constexpr bool is_reason(std::string_view counter) {
  return counter.starts_with(kFallback) && !counter.ends_with("s");
}

// True for what stands for itself in JSON's strings.
constexpr bool is_plain(char letter) {
  return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
}

}  // namespace

std::size_t format_json(const Snapshot& snapshot, char* buffer, std::size_t size) {
  const Counters& c = snapshot.counters;
  Text text(buffer, size);
  text.add("{\"version\":\"%s\",\"pid\":%d,\"parent_pid\":%d,\"process\":\"", MEMO_VERSION,
           static_cast<int>(getpid()), static_cast<int>(getppid()));
  for (const char* name = __progname; *name != '\0'; ++name) {
    text.add("%c", is_plain(*name) ? *name : '?');
  }
  text.add("\",\"phase\":\"%s\",\"peak_bytes\":%llu,\"page_faults_avoided\":%llu", snapshot.phase,
           static_cast<Number>(snapshot.peak_bytes),
           static_cast<Number>(snapshot.faults_avoided()));
  text.add(",\"slab_bytes\":%llu,\"lower_bound_bytes\":%llu,\"plan_seconds\":%.6f,\"threads\":%llu",
           static_cast<Number>(snapshot.slab_bytes),
           static_cast<Number>(snapshot.lower_bound_bytes), snapshot.plan_seconds,
           static_cast<Number>(snapshot.threads));
#define COUNTER(name, unit, help) \
  text.add(",\"%s\":%llu", #name, static_cast<Number>(c.name.get()));
#include "src/base/counters.def"
#undef COUNTER
  text.add(
      ",\"since_serving\":{\"large_bytes\":%llu,\"planned_bytes\":%llu,\"at_hand_bytes\":%llu},"
      "\"fallback\":{",
      static_cast<Number>(snapshot.since_large_bytes),
      static_cast<Number>(snapshot.since_planned_bytes),
      static_cast<Number>(snapshot.since_at_hand_bytes));
  bool first = true;
  const auto add_reason = [&](std::string_view counter, std::uint64_t calls) {
    if (is_reason(counter)) {
      counter.remove_prefix(kFallback.size());
      text.add("%s\"%.*s\":%llu", first ? "" : ",", static_cast<int>(counter.size()),
               counter.data(), static_cast<Number>(calls));
      first = false;
    }
  };
#define COUNTER(name, unit, help) add_reason(#name, c.name.get());
#include "src/base/counters.def"
#undef COUNTER
  text.add("}");
  text.add(",\"loop\":{\"calls\":%u,\"run\":%u", snapshot.loop.length, snapshot.loop.run);
  const auto add_words = [&](const char* name, std::string_view words) {
    text.add(",\"%s\":\"%.*s\"", name, static_cast<int>(words.size()), words.data());
  };
  add_words("evidence", snapshot.evidence);
  add_words("verdict", snapshot.verdict);
  add_words("next", snapshot.next);
  text.add("}");
  if (snapshot.observes != 0) {
    text.add(",\"observed\":{\"page_faults\":%llu,\"peak_bytes\":%llu}",
             static_cast<Number>(snapshot.observed_faults),
             static_cast<Number>(snapshot.held_peak_bytes));
  }
  text.add("}\n");
  return text.length();
}

bool write_stats_file(const RecursionGuard&, const char* path, const Snapshot& snapshot) noexcept {
  char text[kJsonRoom];
  const std::size_t length = std::min(format_json(snapshot, text, sizeof text), sizeof text - 1);
  return replace_file(path, [&](int file) { return write_all(file, text, length); });
}

bool is_written_once(const char* path) {
  return is_no_file(path);
}

void print_stats(const Snapshot& snapshot) {
  Line() << "pid " << static_cast<std::uint64_t>(getpid());
  Line() << "program " << __progname;
  Line() << "phase " << snapshot.phase;
  Line() << "plan_microseconds " << static_cast<std::uint64_t>(snapshot.plan_seconds * 1e6);
#define PROCESS(name, help) Line() << #name " " << snapshot.name;
#include "src/io/status_page_numbers.def"
#define COUNTER(name, unit, help) Line() << #name " " << snapshot.counters.name.get();
#include "src/base/counters.def"
#undef COUNTER
}

void print_fallbacks(const Snapshot& snapshot) {
  const auto print = [](std::string_view counter, std::uint64_t calls, std::string_view help) {
    if (is_reason(counter) && calls != 0) {
      Line() << "not served: " << counter.substr(kFallback.size()) << " " << calls << " (" << help
             << ")";
    }
  };
#define COUNTER(name, unit, help) print(#name, snapshot.counters.name.get(), help);
#include "src/base/counters.def"
#undef COUNTER
}

bool write_trace(const RecursionGuard&, const char* path,
                 std::span<const Recorder* const> recorders) noexcept {
  try {
    struct Entry {
      std::uint64_t stamp;
      TraceRow row;
    };
    std::vector<Entry> entries;
    std::uint64_t block = 0;
    for (std::uint32_t lane = 0; lane < recorders.size(); ++lane) {
      const std::span<const Allocation> log = recorders[lane]->log();
      const Stamps* stamps = recorders[lane]->stamps();
      for (std::size_t i = 0; stamps != nullptr && i < log.size(); ++i, ++block) {
        TraceRow row;
        row.op = log[i].op;
        row.thread = lane;
        row.block = block;
        row.size = log[i].size;
        row.alignment = 1ULL << log[i].alignment_log2;
        row.site = log[i].site;
        entries.push_back({stamps[i].born, row});
        if (stamps[i].died != 0) {
          TraceRow death;
          death.kind = TraceRow::Kind::kFree;
          death.thread = stamps[i].freeing_lane;
          death.block = block;
          entries.push_back({stamps[i].died, death});
        }
      }
      for (const Mark& mark : recorders[lane]->marks()) {
        TraceRow row;
        row.kind = TraceRow::Kind::kMark;
        row.thread = lane;
        row.block = mark.number;
        entries.push_back({mark.stamp, row});
      }
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.stamp < b.stamp; });
    return replace_file(path, [&](int file) {
      TraceWriter writer(file);
      for (const Entry& entry : entries) {
        writer.write(entry.row);
      }
      return writer.flush();
    });
  } catch (...) {
    errno = ENOMEM;
    return false;
  }
}

}  // namespace memo
