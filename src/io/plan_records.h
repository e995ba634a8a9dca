// One plan of a plan file as bytes, and back. Cold. What is read is checked for being in bounds
// only; of a symbolic plan src/learn makes anew whatever would have to be right.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "src/io/plan_file.h"

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

void append_plan(std::vector<char>& bytes, const SavedPlan& plan);

// The next plan, of at most `most_height` bytes; false if there is none that makes sense, or no
// memory. The schedule is the caller's, to free with free_plan().
bool read_plan(Reader& reader, std::uint64_t most_height, SavedPlan& plan);

}  // namespace memo
