// Reads and writes MiniMalloc's CSV dialect. Cold; takes hostile text.
#include "dsa/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_set>

#include "dsa/validate.h"

namespace dsa {
namespace {

enum Column : std::size_t { kId, kLower, kUpper, kSize, kAlignment, kGaps, kOffset, kColumns };
constexpr std::array<std::string_view, kColumns> kNames = {"id",        "lower", "upper", "size",
                                                           "alignment", "gaps",  "offset"};
constexpr std::size_t kRequired = kAlignment;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Cuts the text before the next separator off `rest`, and the separator with it.
std::string_view cut(std::string_view& rest, char separator) {
  const std::size_t at = rest.find(separator);
  const std::string_view head = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return head;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  // False, with error set, at the first line that is not right.
  bool read(CsvTable& table) {
    if (!header()) {
      return false;
    }
    while (!rest_.empty()) {
      ++line_;
      const std::string_view line = trim(cut(rest_, '\n'));
      if (!line.empty() && !row(line, table)) {
        return false;
      }
    }
    // Only the whole tells whether the sizes add up.
    const Verdict verdict = validate(table.problem);
    return verdict ? true : fail(verdict.reason);
  }

  std::string error;
  std::size_t line() const { return line_; }

 private:
  bool fail(std::string reason) {
    error = std::move(reason);
    return false;
  }

  bool header() {
    ++line_;
    if (rest_.starts_with("\xEF\xBB\xBF")) {  // a byte order mark
      rest_.remove_prefix(3);
    }
    std::string_view line = trim(cut(rest_, '\n'));
    if (line.empty()) {
      return fail("the first line must name the columns, such as id,lower,upper,size");
    }
    std::array<bool, kColumns> seen{};
    do {
      const std::string_view name = trim(cut(line, ','));
      std::size_t column = 0;
      while (column < kColumns && kNames[column] != name) {
        ++column;
      }
      if (column == kColumns) {
        return fail("there is no column '" + std::string(name) + "'");
      }
      if (seen[column]) {
        return fail("column '" + std::string(name) + "' is named twice");
      }
      seen[column] = true;
      layout_.push_back(static_cast<Column>(column));
    } while (!line.empty());
    for (std::size_t column = 0; column < kRequired; ++column) {
      if (!seen[column]) {
        return fail("column '" + std::string(kNames[column]) + "' is missing");
      }
    }
    return true;
  }

  bool row(std::string_view line, CsvTable& table) {
    Buffer buffer;
    std::string_view id;
    const auto fields = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
    if (fields != layout_.size()) {
      return fail("the row has " + std::to_string(fields) + " fields, the header " +
                  std::to_string(layout_.size()));
    }
    for (const Column column : layout_) {
      if (!set(column, trim(cut(line, ',')), buffer, id)) {
        return false;
      }
    }
    if (const Verdict verdict = validate(Problem{{buffer}}); !verdict) {
      return fail(verdict.reason);
    }
    if (id.empty()) {
      return fail("the id is empty");
    }
    if (!ids_.insert(id).second) {
      return fail("id '" + std::string(id) + "' occurs twice");
    }
    table.problem.buffers.push_back(std::move(buffer));
    table.ids.emplace_back(id);
    return true;
  }

  bool set(Column column, std::string_view field, Buffer& buffer, std::string_view& id) {
    switch (column) {
      case kId:
        id = field;
        return true;
      case kLower:
        return number(column, field, buffer.lower);
      case kUpper:
        return number(column, field, buffer.upper);
      case kSize:
        return number(column, field, buffer.size);
      case kAlignment:
        return field.empty() || number(column, field, buffer.alignment);
      case kGaps:
        return gaps(field, buffer);
      case kOffset:
        return field.empty() || number(column, field, buffer.fixed.emplace());
      case kColumns:
        break;
    }
    return false;
  }

  bool gaps(std::string_view field, Buffer& buffer) {
    while (!(field = trim(field)).empty()) {
      std::string_view word = cut(field, ' ');
      // The first character may be the sign of a negative time.
      const std::size_t dash = word.find('-', 1);
      if (dash == std::string_view::npos) {
        return fail("gaps: '" + std::string(word) + "' is not of the form a-b");
      }
      Interval& gap = buffer.gaps.emplace_back();
      if (!number(kGaps, word.substr(0, dash), gap.lower) ||
          !number(kGaps, word.substr(dash + 1), gap.upper)) {
        return false;
      }
    }
    return true;
  }

  bool number(Column column, std::string_view field, std::int64_t& value) {
    const auto [end, status] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (status == std::errc::result_out_of_range) {
      return fail(std::string(kNames[column]) + ": " + std::string(field) +
                  " does not fit in 63 bits");
    }
    if (status != std::errc() || end != field.data() + field.size()) {
      return fail(std::string(kNames[column]) + ": '" + std::string(field) + "' is not a number");
    }
    return true;
  }

  std::string_view rest_;
  std::size_t line_ = 0;
  std::vector<Column> layout_;
  std::unordered_set<std::string_view> ids_;
};

}  // namespace

CsvResult parse_csv(std::string_view text, std::string_view name) {
  CsvTable table;
  Reader reader(text);
  if (!reader.read(table)) {
    return {{}, std::string(name) + ":" + std::to_string(reader.line()) + ": " + reader.error};
  }
  return {std::move(table), {}};
}

std::string format_csv(const CsvTable& table, const Plan* plan) {
  bool alignment = false;
  bool gaps = false;
  bool fixed = false;
  for (const Buffer& buffer : table.problem.buffers) {
    alignment |= buffer.alignment != 1;
    gaps |= !buffer.gaps.empty();
    fixed |= buffer.fixed.has_value();
  }
  std::string out = "id,lower,upper,size";
  out += alignment ? ",alignment" : "";
  out += gaps ? ",gaps" : "";
  out += plan != nullptr || fixed ? ",offset\n" : "\n";
  const auto field = [&out](std::int64_t value) { out += ',' + std::to_string(value); };
  for (std::size_t i = 0; i < table.problem.buffers.size(); ++i) {
    const Buffer& buffer = table.problem.buffers[i];
    out += i < table.ids.size() ? table.ids[i] : std::to_string(i);
    field(buffer.lower);
    field(buffer.upper);
    field(buffer.size);
    if (alignment) {
      field(buffer.alignment);
    }
    if (gaps) {
      out += ',';
      for (const Interval& gap : buffer.gaps) {
        out += &gap == buffer.gaps.data() ? "" : " ";
        out += std::to_string(gap.lower) + '-' + std::to_string(gap.upper);
      }
    }
    if (plan != nullptr) {
      field(plan->offsets[i]);
    } else if (fixed) {
      out += buffer.fixed ? ',' + std::to_string(*buffer.fixed) : ",";
    }
    out += '\n';
  }
  return out;
}

}  // namespace dsa
