#include "src/base/message.h"

#include <unistd.h>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <iterator>

#include "src/base/descriptors.h"
#include "src/base/interrupts.h"

namespace memo {
namespace {

constinit std::atomic<bool> says_process{false};

}  // namespace

void say_process_in_lines() {
  says_process.store(true, std::memory_order_relaxed);
}

Line::Line(Kind kind) : kind_(kind) {
  *this << "memomalloc";
  if (says_process.load(std::memory_order_relaxed)) {
    *this << "[" << static_cast<std::uint64_t>(getpid()) << "]";
  }
  *this << ": ";
}

Line::~Line() {
  buffer_[size_] = '\n';
  const NoWriteSignals quiet;
  os::write_to_stderr({buffer_, size_ + 1}, kind_ == Kind::kLastWords);
}

Line& Line::operator<<(std::string_view text) {
  size_ += text.copy(buffer_ + size_, sizeof buffer_ - 1 - size_);
  return *this;
}

Line& Line::operator<<(std::uint64_t number) {
  char digits[20];
  return *this << std::string_view(digits, std::to_chars(digits, std::end(digits), number).ptr);
}

Line& Line::hex(std::uint64_t number) {
  char digits[16];
  return *this << "0x"
               << std::string_view(digits, std::to_chars(digits, std::end(digits), number, 16).ptr);
}

Line& Line::fixed(std::uint64_t value, std::uint64_t unit) {
  return *this << value / unit << "." << value % unit * 10 / unit;
}

void fail(std::string_view reason) {
  Line(Line::Kind::kLastWords) << reason;
  std::abort();
}

}  // namespace memo
