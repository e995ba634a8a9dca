// Whether memory that began in small pages may be brought into huge ones later. While one is made, the kernel lets nothing
// of the process be mapped, and interrupts every processor: some ask not to be disturbed so. Cold: small files are read.
#pragma once

namespace memo::os {

// The files that tell; tests have others.
struct HugePageFiles {
  const char* enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
  const char* enabled_2_mib = "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled";
  const char* isolated = "/sys/devices/system/cpu/isolated";
  const char* status = "/proc/thread-self/status";
};

// The kernel does it (Linux 6.1), nobody has switched huge pages off ("never"), and no processors are set apart for
// programs that must not be interrupted.
[[nodiscard]] bool machine_gathers(const HugePageFiles& files = {});

// The process has locked no memory to speak of, its threads, of which the calling one has inherited what they are, are
// ordinary ones, and it leaves to the kernel on which memory nodes it lies: a huge page lies on one. False for a confined
// thread.
[[nodiscard]] bool process_gathers(const HugePageFiles& files = {});

}  // namespace memo::os
