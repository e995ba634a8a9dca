// Plans as the bytes of a file, and back. Cold; no system call. What is read is checked for being
// in bounds only; of a symbolic plan src/learn computes again all that must be right.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "src/io/saved_plan.h"

namespace memo {

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

inline constexpr std::string_view kPlanMagic = "MEMOPLAN";

inline constexpr std::uint32_t kPlanVersion = 4;  // of the format; no other is read

// The whole file, of at most `most` bytes: a plan that would exceed them is left out. Behind the
// plans comes `trailer`, which readers of plans pass over.
std::vector<char> format_plans(std::span<const SavedPlan> plans, std::uint64_t most,
                               std::span<const char> trailer = {});

// The plans of the whole file, of at most `most_height` bytes each, and how many; none where it is
// damaged, foreign or of another version, and *problem says why. A parametric plan is one that
// memo::restore() still has to accept. May throw for want of memory.
std::uint32_t parse_plans(std::span<const char> bytes, std::uint64_t most_height,
                          std::span<LoadedPlan> plans, std::string_view* problem);

// True for what another version of the library has written in its format.
bool is_other_version(std::span<const char> bytes);

void append_plan(std::vector<char>& bytes, const SavedPlan& plan);

// The next plan, of at most `most_height` bytes; false if there is none that makes sense. May throw
// for want of memory.
bool read_plan(Reader& reader, std::uint64_t most_height, LoadedPlan& plan);

}  // namespace memo
