// A block of the pool that grows where it cannot grow in place: copied to another one, and not
// there twice. Hot.
#pragma once

#include <cstdint>

#include "src/base/os.h"
#include "src/serve/pool.h"

namespace memo {

class Carrying {
 public:
  // Copies the block at `from`, `bytes` long, to the one at `to`, which was allocated last. Where
  // that is what raises the peak, and has hardly any memory yet, both are never there as a whole:
  // the system's malloc, too, grows its largest blocks without (mremap). Else the loop needs the
  // memory at another point, and would only have to get it again. True if `from` has none any more:
  // it is to be freed at once. Any thread.
  static bool carry(Pool& pool, void* from, void* to, std::uint64_t bytes) {
    if (!pool.held().raised() || !os::is_bare(to, bytes) || !pool.carried(bytes)) {
      os::copy_written(from, to, bytes);
      return false;
    }
    return os::carry(from, to, bytes);
  }
};

}  // namespace memo
