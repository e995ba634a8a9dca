// An index entry names the description (FDE) of the function, which names the common part (CIE) and
// holds a program. Run up to the return address, the program leaves the row of the table.
#include "src/trace/frame_rule.h"

#include "src/trace/unwind_program.h"

namespace memo {
namespace {

constexpr std::int64_t kStackWord = 8;

// A reader of the entry at `at` behind its length; empty where no entry can be.
TableReader open_entry(const UnwindTables& tables, std::uint64_t at) {
  if (at == 0 || at < tables.low || at >= tables.high) {
    return {0, 0};
  }
  TableReader entry(at, tables.high);
  entry.limit(entry.number<std::uint32_t>());  // 0xFFFFFFFF, a longer entry, does not fit
  return entry;
}

CommonPart read_common(const UnwindTables& tables, std::uint64_t at) {
  CommonPart common;
  TableReader entry = open_entry(tables, at);
  if (entry.number<std::uint32_t>() != 0) {
    return common;
  }
  const std::uint8_t version = entry.byte();
  const std::uint64_t names = entry.at();
  while (entry.more() && entry.byte() != 0) {
  }
  TableReader letters(names, entry.at());
  common.code_step = entry.uleb();
  common.data_step = entry.sleb();
  const std::uint64_t back = version == 1 ? entry.byte() : entry.uleb();
  bool usable = (version == 1 || version == 3) && back == kReturn;
  std::uint64_t program = entry.at();
  for (std::uint8_t letter = letters.byte(); letter != 0; letter = letters.byte()) {
    switch (letter) {
      case 'z':
        common.augmented = true;
        program = entry.uleb();
        program += entry.at();
        break;
      case 'R':
        common.pointers = entry.byte();
        break;
      case 'P':
        entry.pointer(entry.byte() & 0x7F, 0);
        break;
      case 'L':
        entry.byte();
        break;
      case 'B':  // AArch64: which key signs
        break;
      default:  // 'S', a signal's frame, whose registers lie elsewhere, or unknown
        usable = false;
    }
  }
  if (!usable || !entry.good() || program < entry.at()) {
    return common;
  }
  entry.skip(program - entry.at());
  Row start;
  common.usable = run_program(common, 0, 0, entry, start);
  common.start = start;
  return common;
}

// The description that covers `address`, by the index' sorted pairs of offsets; 0 if none can.
std::uint64_t find_description(const UnwindTables& tables, std::uint64_t address) {
  constexpr std::uint8_t kSortedPairs = 0x3B;  // signed 4 bytes each, from the index' start
  struct Pair {
    std::int32_t function;
    std::int32_t description;
  };
  if (tables.index == 0 || tables.index < tables.low || tables.index >= tables.high) {
    return 0;
  }
  TableReader index(tables.index, tables.high);
  const std::uint8_t version = index.byte();
  const std::uint8_t frames = index.byte();
  const std::uint8_t counting = index.byte();
  const std::uint8_t format = index.byte();
  index.pointer(frames, tables.index);
  const std::uint64_t count = index.pointer(counting, tables.index);
  const std::uint64_t pairs = index.at();
  if (version != 1 || format != kSortedPairs || !index.good() ||
      count > (tables.high - pairs) / sizeof(Pair)) {
    return 0;
  }
  const auto pair = [&](std::uint64_t i) {
    return TableReader(pairs + i * sizeof(Pair), tables.high).number<Pair>();
  };
  const auto wanted = static_cast<std::int64_t>(address - tables.index);
  std::uint64_t low = 0;  // every function before it begins at or below the address
  std::uint64_t high = count;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (pair(middle).function <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) {
    return 0;
  }
  return tables.index + static_cast<std::uint64_t>(std::int64_t{pair(low - 1).description});
}

// Bytes in words; false where they are none, or too many for a rule.
bool in_words(std::int64_t bytes, std::int16_t& words) {
  words = static_cast<std::int16_t>(bytes / kStackWord);
  return std::int64_t{words} * kStackWord == bytes;
}

FrameRule rule_of(const Row& row) {
  using Kind = Place::Kind;
  FrameRule rule;
  if (!in_words(row.cfa.offset, rule.cfa_at) || !in_words(row.fp.offset, rule.fp_at) ||
      !in_words(row.back.offset, rule.return_at) || row.back.kind != Kind::kCfa) {
    return {};
  }
  if (row.cfa.kind == Kind::kRegister && row.cfa.base == kSp) {
    rule.cfa = FrameRule::Cfa::kFromSp;
  } else if (row.cfa.kind == Kind::kRegister && row.cfa.base == kFp) {
    rule.cfa = FrameRule::Cfa::kFromFp;
  } else if (row.cfa.kind == Kind::kWordAt && row.cfa.base == kFp) {
    rule.cfa = FrameRule::Cfa::kAtFp;
  } else {
    return {};
  }
  if (row.fp.kind == Kind::kCfa) {
    rule.fp = FrameRule::Saved::kAtCfa;
  } else if (row.fp.kind == Kind::kRegister && row.fp.base == kFp) {
    rule.fp = FrameRule::Saved::kAtFp;
  } else if (row.fp.kind != Kind::kUnset) {
    return {};
  }
  return rule;
}

}  // namespace

FrameRule find_frame_rule(const UnwindTables& tables, std::uint64_t return_address) {
  // The call is before the address it returns to, which may be another function's first.
  const std::uint64_t call = return_address - 1;
  TableReader entry = open_entry(tables, find_description(tables, call));
  const std::uint64_t here = entry.at();
  const auto distance = entry.number<std::uint32_t>();
  if (!entry.good() || distance == 0) {
    return {};
  }
  const CommonPart common = read_common(tables, here - distance);
  const std::uint64_t start = entry.pointer(common.pointers, 0);
  const std::uint64_t length = entry.pointer(common.pointers & 0x0F, 0);
  if (common.augmented) {
    entry.skip(entry.uleb());
  }
  if (!common.usable || !entry.good() || call - start >= length) {
    return {};
  }
  Row row;
  return run_program(common, start, call, entry, row) ? rule_of(row) : FrameRule{};
}

}  // namespace memo
