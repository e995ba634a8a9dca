// The few facts of an ELF file that decide whether a preloaded library can serve it. Cold.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace memo::cli {

// Functions that only an allocator defines, as the usual ones name theirs.
inline constexpr std::string_view kAllocatorFunctions[] = {
    "malloc",    "posix_memalign", "je_malloc", "_rjem_malloc", "mallocx",
    "mi_malloc", "tc_malloc",      "rpmalloc",  "sn_malloc",    "scalable_malloc"};

// c10::alloc_cpu(unsigned long) and c10::free_cpu(void*), which the library stands in for where
// both are there, and the flags that it reads (preload/c10.h).
inline constexpr std::string_view kTensorNames[] = {"_ZN3c109alloc_cpuEm", "_ZN3c108free_cpuEPv",
                                                    "FLAGS_caffe2_cpu_allocator_do_zero_fill",
                                                    "FLAGS_caffe2_cpu_allocator_do_junk_fill"};

struct ElfFile {
  std::uint16_t machine = 0;  // EM_...
  bool is_64_bit = false;
  std::string interpreter;           // PT_INTERP; empty: statically linked (or a shared library)
  std::set<std::string> allocators;  // the functions of kAllocatorFunctions that it defines itself
  std::set<std::string> tensors;     // what it defines of kTensorNames

  [[nodiscard]] bool gives_tensors() const { return tensors.size() == std::size(kTensorNames); }
};

// None if the file cannot be read or is no ELF file of this machine's byte order. Only 64-bit files
// have their interpreter and symbols read (the dynamic symbols, and the others where not stripped).
std::optional<ElfFile> read_elf(const std::string& path);

// The machine that this command was built for.
std::uint16_t own_machine();

}  // namespace memo::cli
