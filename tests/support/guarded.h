// Memory between two pages that nobody may touch: who reads past either end is ended by the
// processor. For tests only.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace memo::testing {

class GuardedPages {
 public:
  explicit GuardedPages(std::uint64_t pages)
      : page_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))), bytes_((pages + 2) * page_) {
    map_ = static_cast<unsigned char*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (map_ == MAP_FAILED || mprotect(begin(), bytes_ - 2 * page_, PROT_READ | PROT_WRITE) != 0) {
      std::abort();
    }
  }
  ~GuardedPages() { munmap(map_, bytes_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  [[nodiscard]] unsigned char* begin() const { return map_ + page_; }
  [[nodiscard]] unsigned char* end() const { return map_ + bytes_ - page_; }

 private:
  std::uint64_t page_;
  std::uint64_t bytes_;
  unsigned char* map_;
};

}  // namespace memo::testing
