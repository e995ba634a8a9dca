// prctl(), by which a program says that it will filter its system calls. Cold; any thread.
#include <linux/prctl.h>
#include <sys/syscall.h>

#include "preload/pass_on.h"
#include "preload/shim.h"
#include "src/base/os.h"

namespace memo {

int shim::prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
  if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
    os::expect_filter();
  }
  return pass_on(&Next::prctl, SYS_prctl, option, a, b, c, d);
}

}  // namespace memo
