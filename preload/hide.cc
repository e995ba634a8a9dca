// Takes names out of this library's own symbol table at start. Cold.
//
// A program that looks for an exported name, by dlsym or a weak reference, would believe to run on
// an allocator that is not there. A symbol without a value is no definition to the dynamic linker.
// The table is in a page of the file that only this process has changed. References of objects that
// were loaded with the program are bound before any code of ours runs: they reach functions that
// work without the allocator (preload/peers.cc).
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <cstring>

#include "preload/next.h"
#include "src/base/bits.h"
#include "src/base/os.h"

// The start of this library's file in memory, by the linker.
// NOLINTNEXTLINE(readability-identifier-naming): not our name
extern "C" [[gnu::visibility("hidden")]] const ElfW(Ehdr) __ehdr_start;

namespace memo {
namespace {

// The number of symbols is in no field: the last chain of the hash table ends with the last of
// them.
std::uint32_t count_symbols(const std::uint32_t* hash) {
  const std::uint32_t buckets = hash[0];
  const std::uint32_t first = hash[1];
  const std::uint32_t* bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof *hash);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) {
    last = bucket[i] > last ? bucket[i] : last;
  }
  if (last < first) {
    return first;
  }
  while ((chain[last - first] & 1U) == 0) {
    ++last;
  }
  return last + 1;
}

// True if [start, end) is in one segment alone: a page may hold the end of one and the start of the
// next where the kernel's pages are larger than the library was linked for.
bool in_one_segment(std::uint64_t start, std::uint64_t end) {
  const auto base = reinterpret_cast<std::uint64_t>(&__ehdr_start);
  const auto* header = reinterpret_cast<const ElfW(Phdr)*>(base + __ehdr_start.e_phoff);
  std::uint32_t touched = 0;
  for (std::uint32_t i = 0; i < __ehdr_start.e_phnum; ++i) {
    const std::uint64_t first = base + header[i].p_vaddr;
    const bool apart = first >= end || first + header[i].p_memsz <= start;
    touched += header[i].p_type == PT_LOAD && !apart ? 1 : 0;
  }
  return touched == 1 && start >= base;
}

bool is_missing(const Next& next, const char* name) {
#define HIDE(row, condition)                                               \
  if (name[0] == #row[0] && (condition) && std::strcmp(name, #row) == 0) { \
    return true;                                                           \
  }
#define HOOK_Peer(row) HIDE(row, next.row == nullptr)
#define HOOK_Operator(row) HIDE(row, !next.is_own_operator(reinterpret_cast<const void*>(next.row)))
#include "preload/hooks.def"
#undef HIDE
  return false;
}

}  // namespace

void hide_missing_peers(const Next& next) {
  const Symbols symbols = symbols_of(_DYNAMIC, reinterpret_cast<ElfW(Addr)>(&__ehdr_start));
  if (!symbols.told()) {
    return;
  }
  const std::uint32_t count = count_symbols(symbols.hash);
  const auto start = round_down(reinterpret_cast<std::uint64_t>(symbols.table), os::page_size());
  const auto end =
      round_up(reinterpret_cast<std::uint64_t>(symbols.table + count), os::page_size());
  auto* const pages = reinterpret_cast<void*>(start);
  if (!in_one_segment(start, end) || mprotect(pages, end - start, PROT_READ | PROT_WRITE) != 0) {
    return;  // then they stay visible
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    auto& symbol = symbols.table[i];
    if (symbol.st_shndx != SHN_UNDEF && is_missing(next, symbols.names + symbol.st_name)) {
      __atomic_store_n(&symbol.st_value, 0, __ATOMIC_RELAXED);
    }
  }
  mprotect(pages, end - start, PROT_READ);
}

}  // namespace memo
