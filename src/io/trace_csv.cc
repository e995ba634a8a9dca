// See trace_csv.h. Cold.
#include "src/io/trace_csv.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "src/io/replace_file.h"

namespace memo {
namespace {

constexpr std::string_view kOps[] = {
#define OP(name) #name,
#include "src/trace/ops.def"
#undef OP
};

constexpr std::size_t kFields = 6;
enum Field : std::size_t { kOp, kThread, kBlock, kSize, kAlignment, kSite };

// Splits at commas; false unless there are exactly kFields.
bool split(std::string_view line, std::array<std::string_view, kFields>& fields) {
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == kFields)) {
      return false;
    }
    fields[i] = line.substr(0, comma);
    line.remove_prefix(i + 1 == kFields ? line.size() : comma + 1);
  }
  return true;
}

template <typename Number>
bool number(std::string_view text, Number& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

std::optional<Op> op_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i] == name) {
      return static_cast<Op>(i);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<TraceRow> parse_trace_row(std::string_view line, std::string_view* reason) {
  const auto bad = [&](std::string_view why) {
    *reason = why;
    return std::nullopt;
  };
  std::array<std::string_view, kFields> fields;
  if (!split(line, fields)) {
    return bad("a row has six fields: op,thread,block,size,alignment,site");
  }
  TraceRow row;
  if (!number(fields[kBlock], row.block)) {
    return bad("block is not a number");
  }
  if (fields[kOp] == "mark") {
    row.kind = TraceRow::Kind::kMark;
    return row;
  }
  if (!number(fields[kThread], row.thread)) {
    return bad("thread is not a number");
  }
  if (fields[kOp] == "free") {
    row.kind = TraceRow::Kind::kFree;
    return row;
  }
  const std::optional<Op> op = op_named(fields[kOp]);
  if (!op) {
    return bad(
        "op is not one of malloc, calloc, realloc, posix_memalign, aligned_alloc, memalign, "
        "valloc, pvalloc, free, mark");
  }
  row.op = *op;
  if (!number(fields[kSize], row.size)) {
    return bad("size is not a number of bytes");
  }
  if (!number(fields[kAlignment], row.alignment) || !std::has_single_bit(row.alignment)) {
    return bad("alignment is not a power of two");
  }
  if (!fields[kSite].empty() && !number(fields[kSite], row.site, 16)) {
    return bad("site is not a 64-bit number in hexadecimal");
  }
  return row;
}

TraceWriter::TraceWriter(int file) : file_(file) {
  append(kTraceHeader);
  append("\n");
}

TraceWriter::~TraceWriter() {
  flush();
}

void TraceWriter::write(const TraceRow& row) {
  char line[160];
  char* at = line;
  char* const end = line + sizeof(line);
  const auto text = [&](std::string_view piece) {
    const std::string_view fits = piece.substr(0, static_cast<std::size_t>(end - at));
    at = std::copy(fits.begin(), fits.end(), at);
  };
  const auto value = [&](std::uint64_t digits, int base = 10) {
    at = std::to_chars(at, end, digits, base).ptr;
  };
  switch (row.kind) {
    case TraceRow::Kind::kMark:
      text("mark,,");
      value(row.block);
      text(",,,\n");
      break;
    case TraceRow::Kind::kFree:
      text("free,");
      value(row.thread);
      text(",");
      value(row.block);
      text(",,,\n");
      break;
    case TraceRow::Kind::kAllocate:
      text(kOps[static_cast<std::size_t>(row.op)]);
      for (const std::uint64_t field :
           {std::uint64_t{row.thread}, row.block, row.size, row.alignment}) {
        text(",");
        value(field);
      }
      text(",");
      value(row.site, 16);
      text("\n");
      break;
  }
  append({line, static_cast<std::size_t>(at - line)});
}

void TraceWriter::append(std::string_view text) {
  if (used_ + text.size() > kBuffer) {
    flush();
  }
  std::memcpy(buffer_ + used_, text.data(), text.size());
  used_ += text.size();
}

bool TraceWriter::flush() {
  good_ = good_ && write_all(file_, buffer_, used_);
  used_ = 0;
  return good_;
}

}  // namespace memo
