#include "src/base/guard.h"

namespace memo {

constinit thread_local ThreadState t_state;

}  // namespace memo
