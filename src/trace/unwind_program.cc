#include "src/trace/unwind_program.h"

#include "src/base/tuning.h"

namespace memo {
namespace {

// Rows kept while a program runs: compilers keep one, hand-written code two.
constexpr int kMaxRows = 8;

// What a program consists of (DW_CFA_*). The first three have a number in their low six bits.
enum Op : std::uint8_t {
  kAdvance = 0x40,
  kOffset = 0x80,
  kRestore = 0xC0,
  kNop = 0x00,
  kSetLocation = 0x01,
  kAdvance1 = 0x02,
  kAdvance2 = 0x03,
  kAdvance4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRemember = 0x0A,
  kRestoreState = 0x0B,
  kDefineCfa = 0x0C,
  kCfaRegister = 0x0D,
  kCfaOffset = 0x0E,
  kCfaExpression = 0x0F,
  kExpression = 0x10,
  kOffsetSigned = 0x11,
  kDefineCfaSigned = 0x12,
  kCfaOffsetSigned = 0x13,
  kValueOffset = 0x14,
  kValueOffsetSigned = 0x15,
  kValueExpression = 0x16,
  kSignsReturns = 0x2D,  // AArch64: return addresses are signed from here on
  kArgumentsSize = 0x2E,
};

constexpr std::uint8_t kDerefOp = 0x06;
constexpr std::uint8_t kRegisterOp = 0x70;  // + register: its value plus the number that follows

Place* column(Row& row, std::uint64_t number) {
  return number == kFp ? &row.fp : number == kReturn ? &row.back : nullptr;
}

void set(Row& row, std::uint64_t number, const Place& place) {
  if (Place* const of = column(row, number)) {
    *of = place;
  }
}

// The only expressions that compilers write for these columns: a register plus an offset, and the
// word there.
Place expression(TableReader& table) {
  const std::uint64_t length = table.uleb();
  TableReader code(table.at(), table.end());
  code.limit(length);
  table.skip(length);
  const std::uint8_t first = code.byte();
  Place place;
  place.base = static_cast<std::uint64_t>(first) - kRegisterOp;
  place.offset = code.sleb();
  place.kind = Place::Kind::kRegister;
  if (code.more() && code.byte() == kDerefOp) {
    place.kind = Place::Kind::kWordAt;
  }
  if (first < kRegisterOp || place.base > 31 || code.more() || !code.good()) {
    place.kind = Place::Kind::kStrange;
  }
  return place;
}

// Runs the program of a common part or a description until the row for `target` stands.
class Program {
 public:
  Program(const CommonPart& common, std::uint64_t location, std::uint64_t target)
      : row(common.start), common_(common), location_(location), target_(target) {}

  bool run(TableReader code) {
    while (code.more() && location_ <= target_) {
      if (!step(code)) {
        return false;
      }
    }
    return code.good();
  }

  Row row;

 private:
  bool step(TableReader& code) {
    const std::uint8_t op = code.byte();
    const std::uint64_t low = op & 0x3F;
    switch (op & 0xC0) {
      case kAdvance:
        advance(low);
        return true;
      case kOffset:
        saved(low, offset(code.uleb()));
        return true;
      case kRestore:
        restore(low);
        return true;
      default:
        return op < kDefineCfa ? general(op, code) : of_cfa(op, code);
    }
  }

  void advance(std::uint64_t steps) { location_ += steps * common_.code_step; }
  void saved(std::uint64_t number, std::int64_t at_cfa) {
    set(row, number, {Place::Kind::kCfa, 0, at_cfa});
  }
  void lost(std::uint64_t number) { set(row, number, {Place::Kind::kStrange, 0, 0}); }
  void restore(std::uint64_t number) {
    Row start = common_.start;
    if (const Place* const of = column(start, number)) {
      set(row, number, *of);
    }
  }
  [[nodiscard]] std::int64_t offset(std::uint64_t steps) const {
    return static_cast<std::int64_t>(steps) * common_.data_step;
  }

  bool general(std::uint8_t op, TableReader& code) {
    switch (op) {
      case kNop:
        return true;
      case kSetLocation:
        location_ = code.pointer(common_.pointers, 0);
        return true;
      case kAdvance1:
        advance(code.byte());
        return true;
      case kAdvance2:
        advance(code.number<std::uint16_t>());
        return true;
      case kAdvance4:
        advance(code.number<std::uint32_t>());
        return true;
      case kOffsetExtended: {
        const std::uint64_t number = code.uleb();
        saved(number, offset(code.uleb()));
        return true;
      }
      case kRestoreExtended:
        restore(code.uleb());
        return true;
      case kUndefined:  // the outermost frame has no return address
      case kSameValue:
        set(row, code.uleb(), {});
        return true;
      case kRegister:  // in another one, which is not followed
        lost(code.uleb());
        code.uleb();
        return true;
      case kRemember:
        if (kept_ == kMaxRows) {
          return false;
        }
        rows_[kept_++] = row;
        return true;
      default:  // kRestoreState
        if (kept_ == 0) {
          return false;
        }
        row = rows_[--kept_];
        return true;
    }
  }

  bool of_cfa(std::uint8_t op, TableReader& code) {
    switch (op) {
      case kDefineCfa:
      case kDefineCfaSigned:
        row.cfa = {Place::Kind::kRegister, code.uleb(), 0};
        row.cfa.offset = cfa_offset(op == kDefineCfaSigned, code);
        return true;
      case kCfaRegister:
        row.cfa.base = code.uleb();
        return row.cfa.kind == Place::Kind::kRegister;
      case kCfaOffset:
      case kCfaOffsetSigned:
        row.cfa.offset = cfa_offset(op == kCfaOffsetSigned, code);
        return row.cfa.kind == Place::Kind::kRegister;
      case kCfaExpression:
        row.cfa = expression(code);
        return true;
      case kExpression: {
        const std::uint64_t number = code.uleb();
        set(row, number, expression(code));
        return true;
      }
      case kOffsetSigned: {
        const std::uint64_t number = code.uleb();
        saved(number, code.sleb() * common_.data_step);
        return true;
      }
      case kValueOffset:  // values that are not in memory
      case kValueOffsetSigned:
        lost(code.uleb());
        code.uleb();
        return true;
      case kValueExpression:
        lost(code.uleb());
        expression(code);
        return true;
      case kSignsReturns:  // the walk takes the signatures off
        return true;
      case kArgumentsSize:
        code.uleb();
        return true;
      default:
        return false;
    }
  }

  [[nodiscard]] std::int64_t cfa_offset(bool factored, TableReader& code) const {
    return factored ? code.sleb() * common_.data_step : static_cast<std::int64_t>(code.uleb());
  }

  const CommonPart& common_;
  std::uint64_t location_;
  std::uint64_t target_;
  Row rows_[kMaxRows];
  int kept_ = 0;
};

}  // namespace

bool run_program(const CommonPart& common, std::uint64_t location, std::uint64_t target,
                 TableReader code, Row& row) {
  Program program(common, location, target);
  const bool whole = program.run(code);
  row = program.row;
  return whole;
}

}  // namespace memo
