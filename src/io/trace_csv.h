// Trace CSV: one row an event, header `op,thread,block,size,alignment,site`. The dialect's rows,
// their parsing and their writing; files (plain or .gz) are read in src/cli/trace/trace_reader.h.
// Cold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/trace/event.h"

namespace memo {

inline constexpr std::string_view kTraceHeader = "op,thread,block,size,alignment,site";

struct TraceRow {
  enum class Kind : std::uint8_t { kAllocate, kFree, kMark };
  Kind kind = Kind::kAllocate;
  Op op = Op::k_malloc;         // kAllocate: the entry point
  std::uint32_t thread = 0;     // that allocates or frees; small numbers from 0 on
  std::uint64_t block = 0;      // unique per allocation; the iteration's number for a mark
  std::uint64_t size = 0;       // bytes; kAllocate only
  std::uint64_t alignment = 1;  // bytes, a power of two; kAllocate only
  std::uint64_t site = 0;       // hash of the call stack, 0 if unknown; kAllocate only
  friend bool operator==(const TraceRow&, const TraceRow&) = default;
};

// A row, or none; then *reason says in a few words what is wrong with the line.
std::optional<TraceRow> parse_trace_row(std::string_view line, std::string_view* reason);

// Writes rows to a file descriptor through a buffer of its own: no stdio, so that a process at its
// end may use it. The header is written first. Not thread-safe; does not close the descriptor.
class TraceWriter {
 public:
  explicit TraceWriter(int file);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void write(const TraceRow& row);
  // Everything to the file; false if anything so far could not be written (errno of the first
  // failure).
  bool flush();

 private:
  void append(std::string_view text);

  static constexpr std::size_t kBuffer = 16384;
  int file_;
  bool good_ = true;
  std::size_t used_ = 0;
  char buffer_[kBuffer];
};

}  // namespace memo
