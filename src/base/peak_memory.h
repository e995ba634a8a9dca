// The most memory that this process has had at once. Hot, but for rare decisions: opens and reads a file.
#pragma once

#include <sys/resource.h>
#include <cstdint>
#include <string_view>

#include "src/base/os.h"
#include "src/base/proc_file.h"

namespace memo::os {

// Bytes. getrusage() would tell of whoever started the process, too, if that one had more: only VmHWM begins again at exec.
// It is what is told where there is no /proc, and to a confined thread.
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
