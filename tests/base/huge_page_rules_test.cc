// Who is left alone by what gathers memory into huge pages.
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "src/base/huge_page_rules.h"
#include "src/base/os.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::status_of_child;
using testing::TempFolder;

// The files of a machine that has huge pages, and of a process that locks nothing.
class Machine {
 public:
  Machine() {
    write("enabled", "always [madvise] never\n");
    write("enabled_2_mib", "always [inherit] madvise never\n");
    write("isolated", "\n");
    write("status", "Name:\tx\nVmLck:\t       0 kB\nThreads:\t1\n");
  }
  void write(const char* name, const std::string& text) {
    std::ofstream(folder_.file(name)) << text;
  }
  template <typename Function>
  bool ask(Function&& function) const {
    const std::string names[] = {folder_.file("enabled"), folder_.file("enabled_2_mib"),
                                 folder_.file("isolated"), folder_.file("status")};
    return function(
        os::HugePageFiles{names[0].c_str(), names[1].c_str(), names[2].c_str(), names[3].c_str()});
  }
  [[nodiscard]] bool gathers() const { return ask(os::machine_gathers); }
  [[nodiscard]] bool process_gathers() const { return ask(os::process_gathers); }

 private:
  TempFolder folder_;
};

TEST_CASE("huge page rules: a machine that has switched them off, or has isolated processors") {
  if (!os::can_collapse() || os::page_size() != 4096) {
    testing::skip("this kernel brings nothing into huge pages on request");
    return;
  }
  Machine machine;
  CHECK(machine.gathers());
  machine.write("isolated", "2-3\n");
  CHECK_FALSE(machine.gathers());
  machine.write("isolated", "\n");
  machine.write("enabled", "always madvise [never]\n");
  CHECK_FALSE(machine.gathers());
  machine.write("enabled", "[always] madvise never\n");
  CHECK(machine.gathers());
  machine.write("enabled_2_mib", "always inherit madvise [never]\n");
  CHECK_FALSE(machine.gathers());
}

TEST_CASE("huge page rules: a process that has locked memory") {
  Machine machine;
  CHECK(machine.process_gathers());
  machine.write("status", "VmLck:\t    2044 kB\n");
  CHECK(machine.process_gathers());
  machine.write("status", "VmLck:\t    2048 kB\n");
  CHECK_FALSE(machine.process_gathers());
  machine.write("status", "");
  CHECK_FALSE(machine.process_gathers());
}

TEST_CASE("huge page rules: a process that says where its memory lies, or is no ordinary one") {
  const Machine machine;
  const auto gathers_after = [&](auto&& change) {
    return status_of_child([&] { return !change() ? 2 : machine.process_gathers() ? 1 : 0; }) >> 8;
  };
  CHECK(gathers_after([] { return true; }) == 1);
  const int placed = gathers_after([] {
    const unsigned long first_node = 1;
    constexpr int kInterleave = 3;
    return syscall(SYS_set_mempolicy, kInterleave, &first_node, 64UL) == 0;
  });
  if (placed == 2) {
    testing::skip("the system lets nobody say where memory lies");
  } else {
    CHECK(placed == 0);
  }
  const int real_time = gathers_after([] {
    const sched_param parameter{.sched_priority = 1};
    return sched_setscheduler(0, SCHED_FIFO, &parameter) == 0;
  });
  if (real_time == 2) {
    testing::skip("the system lets this user have no real-time thread");
  } else {
    CHECK(real_time == 0);
  }
}

}  // namespace
}  // namespace memo
