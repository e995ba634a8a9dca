#include "src/trace/code_location.h"

#include <elf.h>
#include <link.h>
#include <atomic>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace memo {
namespace {

// Return addresses remembered. torch's large allocations have 3-43 distinct stacks of 24 frames.
constexpr std::uint64_t kRemembered = 4096;

// An address and its hash, checked against each other, since two words cannot be written at once:
// check = address xor hash, so a pair of different writers does not fit.
struct Memory {
  std::atomic<std::uint64_t> check{0};
  std::atomic<std::uint64_t> hash{0};
};
constinit Memory memory[kRemembered];

// An address and what the walk over the modules finds of it.
struct Search {
  std::uint64_t address = 0;
  std::uint64_t place = 0;
};

bool contains(const dl_phdr_info& module, std::uint64_t address) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD &&
        address - (module.dlpi_addr + segment.p_vaddr) < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

// The GNU build id among the notes of the module, hashed; 0 if it has none.
std::uint64_t build_id(const dl_phdr_info& module) {
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = module.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) {
      continue;
    }
    const char* at = reinterpret_cast<const char*>(module.dlpi_addr + segment.p_vaddr);
    const char* const end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* description = name + ((note.n_namesz + 3) & ~3U);
      if (note.n_type == NT_GNU_BUILD_ID && description + note.n_descsz <= end) {
        return XXH3_64bits(description, note.n_descsz);
      }
      at = description + ((note.n_descsz + 3) & ~3U);
    }
  }
  return 0;
}

int visit(dl_phdr_info* module, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (!contains(*module, search.address)) {
    return 0;
  }
  std::uint64_t identity = build_id(*module);
  if (identity == 0) {
    const char* slash = std::strrchr(module->dlpi_name, '/');
    const char* name = slash == nullptr ? module->dlpi_name : slash + 1;
    identity = XXH3_64bits(name, std::strlen(name));
  }
  search.place = identity + (search.address - module->dlpi_addr);
  return 1;
}

// Not by dladdr: it waits for whoever loads a library, whose constructors may wait for us.
// Generated code has no place that another process could know: 0.
std::uint64_t look_up(std::uint64_t address) {
  Search search{address};
  dl_iterate_phdr(visit, &search);
  return search.place;
}

}  // namespace

std::uint64_t code_location(const void* address) {
  const auto key = reinterpret_cast<std::uint64_t>(address);
  Memory& cell = memory[(key ^ (key >> 12)) % kRemembered];
  const std::uint64_t known = cell.hash.load(std::memory_order_acquire);
  if (cell.check.load(std::memory_order_relaxed) == (key ^ known) && key != 0) {
    return known;
  }
  const std::uint64_t hash = look_up(key);
  cell.check.store(key ^ hash, std::memory_order_relaxed);
  cell.hash.store(hash, std::memory_order_release);
  return hash;
}

}  // namespace memo
