#include "src/base/names.h"

#include <sys/prctl.h>
#include <cerrno>

#include "src/base/os.h"

namespace memo::os {

void name_mapping(const void* start, std::uint64_t bytes, const char* name) {
  constexpr int kSetName = 0x53564d41;   // PR_SET_VMA
  constexpr unsigned long kOfPages = 0;  // PR_SET_VMA_ANON_NAME
  const int saved = errno;
  if (!confined()) {
    prctl(kSetName, kOfPages, reinterpret_cast<unsigned long>(start), bytes,
          reinterpret_cast<unsigned long>(name));
  }
  errno = saved;
}

}  // namespace memo::os
