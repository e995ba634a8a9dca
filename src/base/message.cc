#include "src/base/message.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "src/base/interrupts.h"
#include "src/base/os.h"

namespace memo {
namespace {

constinit std::atomic<bool> says_process{false};

// What stderr was at load; no file has inode 0, which stands for a closed one.
constinit std::atomic<bool> noted{false};
constinit std::atomic<std::uint64_t> noted_device{0};
constinit std::atomic<std::uint64_t> noted_inode{0};

// True for a file that has taken the place of stderr, and where the system does not tell. A filter of
// system calls may end who asks.
bool is_programs_file() {
  if (!noted.load(std::memory_order_acquire) || os::confined()) {
    return false;
  }
  struct stat now;
  if (fstat(STDERR_FILENO, &now) != 0) {
    return true;
  }
  return S_ISREG(now.st_mode) && (now.st_dev != noted_device.load(std::memory_order_relaxed) ||
                                  now.st_ino != noted_inode.load(std::memory_order_relaxed));
}

}  // namespace

void say_process_in_lines() {
  says_process.store(true, std::memory_order_relaxed);
}

void note_stderr() {
  struct stat now;
  if (fstat(STDERR_FILENO, &now) == 0) {
    noted_device.store(now.st_dev, std::memory_order_relaxed);
    noted_inode.store(now.st_ino, std::memory_order_relaxed);
  }
  noted.store(true, std::memory_order_release);
}

Line::Line(Kind kind) : kind_(kind) {
  *this << "memomalloc";
  if (says_process.load(std::memory_order_relaxed)) {
    *this << "[" << static_cast<std::uint64_t>(getpid()) << "]";
  }
  *this << ": ";
}

Line::~Line() {
  const int saved = errno;
  buffer_[size_] = '\n';
  const NoWriteSignals quiet;
  if (kind_ == Kind::kRemark && is_programs_file()) {
    errno = saved;
    return;
  }
  // Not write(), at which a thread may be cancelled: malloc is no place for that.
  syscall(SYS_write, STDERR_FILENO, buffer_, size_ + 1);
  errno = saved;
}

Line& Line::operator<<(std::string_view text) {
  size_ += text.copy(buffer_ + size_, sizeof buffer_ - 1 - size_);
  return *this;
}

Line& Line::operator<<(std::uint64_t number) {
  char digits[20];
  std::size_t start = sizeof digits;
  do {
    digits[--start] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return *this << std::string_view(digits + start, sizeof digits - start);
}

Line& Line::hex(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  char digits[16];
  std::size_t start = sizeof digits;
  do {
    digits[--start] = kDigits[number % 16];
    number /= 16;
  } while (number != 0);
  return *this << "0x" << std::string_view(digits + start, sizeof digits - start);
}

Line& Line::fixed(std::uint64_t value, std::uint64_t unit) {
  return *this << value / unit << "." << value % unit * 10 / unit;
}

void fail(std::string_view reason) {
  Line(Line::Kind::kLastWords) << reason;
  std::abort();
}

}  // namespace memo
