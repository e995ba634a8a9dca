// The most memory that this process has had at once. Hot, but for rare decisions: opens and reads a
// file.
#pragma once

#include <sys/resource.h>
#include <cstdint>
#include <string_view>

#include "src/base/os.h"
#include "src/base/proc_file.h"

namespace memo::os {

// Bytes. VmHWM, which begins again at exec. Without /proc, and in a confined thread, getrusage():
// that one counts the peak of the process that started this one, too.
inline std::uint64_t peak_memory() {
  if (!confined()) {
    LineReader status("/proc/self/status");
    for (std::string_view line; status.next(line);) {
      if (line.starts_with("VmHWM:")) {
        return number_in(line) << 10U;
      }
    }
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_maxrss) << 10U;
}

}  // namespace memo::os
