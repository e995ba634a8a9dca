// The programs of unwind tables: run up to an address, one leaves the row of the table that holds
// there. Hot, though run once an address.
#pragma once

#include <cstdint>

#include "src/trace/table_reader.h"

namespace memo {

// The numbers of the registers that matter.
#if defined(__x86_64__)
constexpr std::uint64_t kSp = 7;
constexpr std::uint64_t kFp = 6;
constexpr std::uint64_t kReturn = 16;
#elif defined(__aarch64__)
constexpr std::uint64_t kSp = 31;
constexpr std::uint64_t kFp = 29;
constexpr std::uint64_t kReturn = 30;
#endif

// A place: [the word at] a register's value, or the CFA, plus an offset in bytes.
struct Place {
  enum class Kind : std::uint8_t { kUnset, kCfa, kRegister, kWordAt, kStrange };
  Kind kind = Kind::kUnset;
  std::uint64_t base = 0;  // the register
  std::int64_t offset = 0;
};

// The columns of the table that matter.
struct Row {
  Place cfa;
  Place fp;
  Place back;
};

// What the descriptions of many functions have in common (CIE).
struct CommonPart {
  std::uint64_t code_step = 1;
  std::int64_t data_step = 1;
  std::uint8_t pointers = 0;  // encoding of the addresses in the functions' descriptions
  bool augmented = false;     // descriptions have bytes for others before their program
  bool usable = false;
  Row start;  // the row that its own program leaves
};

// Runs `code` from `location` on until the row for `target` stands; begins with the common part's
// row, and leaves what it reaches in `row`. False where the program is broken or cannot be read.
// Source: DWARF 5, 6.4.2.
bool run_program(const CommonPart& common, std::uint64_t location, std::uint64_t target,
                 TableReader code, Row& row);

}  // namespace memo
