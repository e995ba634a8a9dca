// Lines to stderr from inside malloc: formatted into a fixed buffer, written by one write(2). Hot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/check.h"

namespace memo {

// Builds one line of at most 511 bytes (longer text is cut) and writes it, with a line end, when it
// goes out of scope. Keeps errno. Into a file that has taken the place of stderr go last words
// alone (src/base/descriptors.h).
//   Line() << "no memory for a slab of " << bytes << " bytes";
class Line {
 public:
  enum class Kind { kRemark, kLastWords };
  explicit Line(Kind kind = Kind::kRemark);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  Line& operator<<(std::string_view text);
  Line& operator<<(std::uint64_t number);
  // The number in hexadecimal digits, as addresses are written: 0x7f00.
  Line& hex(std::uint64_t number);
  // The same with one decimal: fixed(1234, 1000) appends "1.2".
  Line& fixed(std::uint64_t value, std::uint64_t unit);

 private:
  Kind kind_;
  char buffer_[512];
  std::size_t size_ = 0;
};

// From now on each line names the process that writes it, `memomalloc[123]: `: a forked child
// shares its parent's stderr.
void say_process_in_lines();

}  // namespace memo
