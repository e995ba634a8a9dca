#include "src/trace/code_location.h"

#include <dlfcn.h>
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

// The GNU build id among the notes of the module at `base`, hashed; 0 if it has none.
std::uint64_t build_id(const char* base) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(base);
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    if (segments[i].p_type != PT_NOTE) {
      continue;
    }
    // Only an executable at a fixed address has absolute addresses in its segments.
    const char* at = header->e_type == ET_EXEC ? reinterpret_cast<const char*>(segments[i].p_vaddr)
                                               : base + segments[i].p_vaddr;
    const char* const end = at + segments[i].p_memsz;
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

std::uint64_t look_up(const void* address) {
  Dl_info module{};
  if (dladdr(address, &module) == 0 || module.dli_fbase == nullptr) {
    return 0;  // generated code has no place that another process could know
  }
  const auto* base = static_cast<const char*>(module.dli_fbase);
  std::uint64_t identity = build_id(base);
  if (identity == 0 && module.dli_fname != nullptr) {
    const char* slash = std::strrchr(module.dli_fname, '/');
    const char* name = slash == nullptr ? module.dli_fname : slash + 1;
    identity = XXH3_64bits(name, std::strlen(name));
  }
  return identity + static_cast<std::uint64_t>(static_cast<const char*>(address) - base);
}

}  // namespace

std::uint64_t code_location(const void* address) {
  const auto key = reinterpret_cast<std::uint64_t>(address);
  Memory& cell = memory[(key ^ (key >> 12)) % kRemembered];
  const std::uint64_t known = cell.hash.load(std::memory_order_acquire);
  if (cell.check.load(std::memory_order_relaxed) == (key ^ known) && key != 0) {
    return known;
  }
  const std::uint64_t hash = look_up(address);
  cell.check.store(key ^ hash, std::memory_order_relaxed);
  cell.hash.store(hash, std::memory_order_release);
  return hash;
}

}  // namespace memo
