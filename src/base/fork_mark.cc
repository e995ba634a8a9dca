#include "src/base/fork_mark.h"

#include "src/base/os.h"

namespace memo {

bool ForkMark::open() {
  if (is_open()) {
    return true;
  }
  auto* page = static_cast<char*>(os::map(os::page_size()));
  if (page == nullptr) {
    return false;
  }
  if (!os::wipe_on_fork(page, os::page_size())) {
    os::unmap(page, os::page_size());
    return false;
  }
  *page = kHere;
  mark_.store(page, std::memory_order_release);
  return true;
}

void ForkMark::set(char value) {
  const char* mark = mark_.load(std::memory_order_relaxed);
  if (mark != &kAlwaysHere) {
    __atomic_store_n(const_cast<char*>(mark), value, __ATOMIC_RELEASE);
  }
}

}  // namespace memo
