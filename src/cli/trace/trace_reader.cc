// See trace_reader.h. Cold.
#include "src/cli/trace/trace_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <unordered_map>

namespace memo::cli {
namespace {

struct CloseTrace {
  void operator()(gzFile file) const { gzclose(file); }
};
using TraceFile = std::unique_ptr<gzFile_s, CloseTrace>;

// Longer than any line of a trace.
constexpr std::size_t kMaxLine = 1U << 16;

// A file that unpacks to many times its size, more than any trace or snapshot that was recorded.
constexpr z_off_t kMostUnpacked = z_off_t{256} << 20;  // bytes, below which nothing is too much
constexpr z_off_t kMostGrowth = 200;
constexpr std::uint64_t kLooksEach = 1024;  // lines
constexpr const char* kBomb =
    "it unpacks to more than 200 times its size; unpack it (gzip -d) to have it read all the same";
bool grows_too_much(gzFile file) {
  const z_off_t packed = gzoffset(file);  // below 0 for a pipe, whose place is not known
  return gzdirect(file) == 0 && gztell(file) > kMostUnpacked && packed >= 0 &&
         gztell(file) / kMostGrowth > packed;
}

// The next line without its end; false at the end of the file.
bool next_line(gzFile file, std::string& line) {
  line.clear();
  // What the file holds may be zero bytes: the piece ends at the last of them.
  char piece[512];
  std::memset(piece, 1, sizeof piece);
  while (line.size() < kMaxLine && gzgets(file, piece, sizeof(piece)) != nullptr) {
    line.append(piece, std::string_view(piece, sizeof piece).rfind('\0'));
    std::memset(piece, 1, sizeof piece);
    if (line.back() == '\n') {
      line.pop_back();
      if (!line.empty() && line.back() == '\r') {
        line.pop_back();
      }
      return true;
    }
  }
  return !line.empty();
}

// Allocations by block id, to find what a free ends.
struct Place {
  std::uint32_t thread = 0;
  std::uint32_t index = 0;
  bool counted = false;  // of at least the threshold
  bool freed = false;
};

class Collector {
 public:
  Collector(std::uint64_t threshold, Streams& streams) : threshold_(threshold), streams_(streams) {}

  std::string add(const TraceRow& row) {
    switch (row.kind) {
      case TraceRow::Kind::kMark:
        ++marks_;
        for (auto& [thread, stream] : streams_) {
          stream.marks.push_back(static_cast<std::uint32_t>(stream.allocations.size()));
        }
        return {};
      case TraceRow::Kind::kFree:
        return free(row);
      case TraceRow::Kind::kAllocate:
        return allocate(row);
    }
    return {};
  }

 private:
  std::string allocate(const TraceRow& row) {
    const auto [at, is_new] = streams_.try_emplace(row.thread);
    Stream& stream = at->second;
    if (is_new) {
      stream.marks.assign(marks_, 0);
    }
    const auto index = static_cast<std::uint32_t>(stream.allocations.size());
    const bool counted = row.size >= threshold_;
    if (!places_.try_emplace(row.block, Place{row.thread, index, counted, false}).second) {
      return "block " + std::to_string(row.block) + " is allocated twice";
    }
    if (counted) {
      stream.events.push_back({index, false, rows_++});
      stream.allocations.push_back({row.size, row.site, kAlive,
                                    static_cast<std::uint8_t>(std::countr_zero(row.alignment)),
                                    row.op});
    }
    return {};
  }

  std::string free(const TraceRow& row) {
    const auto at = places_.find(row.block);
    if (at == places_.end() || at->second.freed) {
      return "block " + std::to_string(row.block) +
             (at == places_.end() ? " is freed but was never allocated" : " is freed twice");
    }
    at->second.freed = true;
    if (at->second.counted) {
      Stream& stream = streams_[at->second.thread];
      stream.allocations[at->second.index].death =
          static_cast<std::uint32_t>(stream.allocations.size());
      stream.events.push_back({at->second.index, true, rows_++});
    }
    return {};
  }

  std::uint64_t threshold_;
  Streams& streams_;
  std::size_t marks_ = 0;
  std::uint64_t rows_ = 0;  // with an event
  std::unordered_map<std::uint64_t, Place> places_;
};

std::string open_file(const std::string& path, TraceFile& file) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    return path + ":0: is a folder; name the trace in it";
  }
  errno = 0;
  file.reset(path == "-" ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path.c_str(), "rb"));
  return file ? "" : path + ":0: cannot be opened: " + std::strerror(errno != 0 ? errno : ENOMEM);
}

// True if the file begins as a snapshot does; nothing is read from it then or else.
bool holds_snapshot(gzFile file) {
  const int first = gzgetc(file);
  if (first >= 0) {
    gzungetc(first, file);
  }
  const char letter = static_cast<char>(first);
  return first >= 0 && begins_like_snapshot({&letter, 1});
}

std::optional<Snapshot> snapshot_of(gzFile file, const std::string& path, std::string& error) {
  std::string bytes;
  char piece[1 << 16];
  int count = 0;
  while ((count = gzread(file, piece, sizeof piece)) > 0) {
    bytes.append(piece, static_cast<std::size_t>(count));
    if (grows_too_much(file)) {
      error = path + ":0: " + kBomb;
      return std::nullopt;
    }
  }
  if (count < 0) {
    error = path + ":0: the file is cut short or damaged";
    return std::nullopt;
  }
  return read_snapshot(bytes, path, error);
}

}  // namespace

std::optional<Snapshot> load_snapshot(const std::string& path, std::string& error) {
  TraceFile file;
  error = open_file(path, file);
  return error.empty() && holds_snapshot(file.get()) ? snapshot_of(file.get(), path, error)
                                                     : std::nullopt;
}

std::string read_trace(const std::string& path,
                       const std::function<std::string(const TraceRow&)>& row) {
  TraceFile file;
  if (std::string reason = open_file(path, file); !reason.empty()) {
    return reason;
  }
  if (holds_snapshot(file.get())) {
    std::string reason;
    const std::optional<Snapshot> snapshot = snapshot_of(file.get(), path, reason);
    if (snapshot) {
      reason = snapshot_rows(*snapshot, row);
      reason = reason.empty() ? "" : path + ":0: " + reason;
    }
    return reason;
  }
  std::string line;
  std::uint64_t number = 1;
  const auto error = [&](std::string_view reason) {
    return path + ":" + std::to_string(number) + ": " + std::string(reason);
  };
  // Damaged data ends as a file would, often inside a line: that is the reason to tell then.
  const auto damaged = [&]() -> std::string {
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    const bool good = code == Z_OK || code == Z_STREAM_END;
    return good ? "" : error(std::string("the file is cut short or damaged: ") + message);
  };
  if (!next_line(file.get(), line) || line != kTraceHeader) {
    const std::string reason = damaged();
    return !reason.empty() ? reason : error("the first line must be " + std::string(kTraceHeader));
  }
  while (next_line(file.get(), line)) {
    ++number;
    if (number % kLooksEach == 0 && grows_too_much(file.get())) {
      return error(kBomb);
    }
    std::string_view reason;
    const std::optional<TraceRow> parsed = parse_trace_row(line, &reason);
    if (!parsed) {
      const std::string damage = damaged();
      return !damage.empty() ? damage : error(reason);
    }
    const std::string refused = row(*parsed);
    if (!refused.empty()) {
      return error(refused);
    }
  }
  return damaged();
}

std::string read_streams(const std::string& path, std::uint64_t threshold, Streams& streams) {
  Collector collector(threshold, streams);
  return read_trace(path, [&](const TraceRow& row) { return collector.add(row); });
}

}  // namespace memo::cli
