#include "src/trace/code_location.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <atomic>
#include <bit>
#include <cstring>

#include "src/base/os.h"
#include "src/base/tuning.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace memo {
namespace {

// What is known of an address, and a check over all of it, since three words cannot be written at
// once: what two threads wrote of different addresses does not fit together.
struct alignas(32) Memory {
  std::atomic<std::uint64_t> check{0};
  std::atomic<std::uint64_t> place{0};
  std::atomic<std::uint64_t> rule{0};
};
// An address that has lost its place is looked up again.
constexpr std::uint32_t kAddresses = 4096;
constinit Memory memory[kAddresses];

std::uint64_t check_of(std::uint64_t address, std::uint64_t place, std::uint64_t rule) {
  return ~address ^ place ^ std::rotl(rule, 29);
}

// struct dl_find_object of glibc 2.35 (<dlfcn.h>), which older headers lack, as it is on x86-64 and
// AArch64.
struct LoadedObject {
  unsigned long long flags;
  void* low;
  void* high;
  const link_map* module;
  void* unwind_index;
  unsigned long long reserved[7];
};
using FindObject = int (*)(void*, LoadedObject*);
constinit FindObject find_object = nullptr;

// A module as both ways of looking up know it.
struct Module {
  std::uint64_t base;  // what addresses in the file count from
  const char* path;
  const ElfW(Phdr) * segments;
  int segment_count;
};

// The GNU build id among the notes of the module, hashed; 0 if it has none.
std::uint64_t build_id(const Module& module) {
  for (int i = 0; i < module.segment_count; ++i) {
    const auto& segment = module.segments[i];
    if (segment.p_type != PT_NOTE) {
      continue;
    }
    const char* at = reinterpret_cast<const char*>(module.base + segment.p_vaddr);
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

std::uint64_t place_in(const Module& module, std::uint64_t address) {
  std::uint64_t identity = build_id(module);
  if (identity == 0) {
    const char* slash = std::strrchr(module.path, '/');
    const char* name = slash == nullptr ? module.path : slash + 1;
    identity = XXH3_64bits(name, std::strlen(name));
  }
  return identity + (address - module.base);
}

bool contains(const Module& module, std::uint64_t address) {
  for (int i = 0; i < module.segment_count; ++i) {
    const auto& segment = module.segments[i];
    if (segment.p_type == PT_LOAD && address - (module.base + segment.p_vaddr) < segment.p_memsz) {
      return true;
    }
  }
  return false;
}

// The index of unwind tables, and the segment that holds it and them.
UnwindTables tables_of(const Module& module) {
  UnwindTables tables;
  for (int i = 0; i < module.segment_count; ++i) {
    if (module.segments[i].p_type == PT_GNU_EH_FRAME) {
      tables.index = module.base + module.segments[i].p_vaddr;
    }
  }
  for (int i = 0; i < module.segment_count; ++i) {
    const auto& segment = module.segments[i];
    const std::uint64_t low = module.base + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && tables.index - low < segment.p_filesz) {
      tables.low = low;
      tables.high = low + segment.p_filesz;
    }
  }
  return tables;
}

struct Search {
  std::uint64_t address;
  CodeLocation& found;
};

int visit(dl_phdr_info* info, std::size_t, void* data) {
  const Search& search = *static_cast<Search*>(data);
  const Module module{info->dlpi_addr, info->dlpi_name, info->dlpi_phdr, info->dlpi_phnum};
  if (!contains(module, search.address)) {
    return 0;
  }
  search.found = {place_in(module, search.address),
                  find_frame_rule(tables_of(module), search.address)};
  return 1;
}

}  // namespace

void prepare_code_locations() {
  find_object = reinterpret_cast<FindObject>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
}

bool look_up_in_table(std::uint64_t return_address, CodeLocation& found) {
  if (find_object == nullptr) {
    return false;
  }
  LoadedObject object;
  if (find_object(reinterpret_cast<void*>(return_address), &object) != 0) {
    found = {};  // generated code: no module has it
    return true;
  }
  // The first page of a module's file is mapped at its low end, with the list of its segments.
  const auto* header = static_cast<const ElfW(Ehdr)*>(object.low);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > os::page_size()) {
    return false;
  }
  const Module module{
      object.module->l_addr, object.module->l_name,
      reinterpret_cast<const ElfW(Phdr)*>(static_cast<const char*>(object.low) + header->e_phoff),
      header->e_phnum};
  found = {place_in(module, return_address), find_frame_rule(tables_of(module), return_address)};
  return true;
}

// Not by dladdr: it waits for a thread that loads a library, whose constructors may wait for us.
bool look_up_in_list(std::uint64_t return_address, CodeLocation& found) {
  Search search{return_address, found};
  return dl_iterate_phdr(visit, &search) != 0;
}

CodeLocation code_location(std::uint64_t return_address) {
  Memory& cell = memory[(return_address ^ (return_address >> 12)) % kAddresses];
  const std::uint64_t place = cell.place.load(std::memory_order_relaxed);
  const std::uint64_t rule = cell.rule.load(std::memory_order_relaxed);
  if (cell.check.load(std::memory_order_relaxed) == check_of(return_address, place, rule)) {
    return {place, std::bit_cast<FrameRule>(rule)};
  }
  CodeLocation found;
  if (!look_up_in_table(return_address, found)) {
    look_up_in_list(return_address, found);
  }
  const auto word = std::bit_cast<std::uint64_t>(found.rule);
  cell.check.store(check_of(return_address, found.place, word), std::memory_order_relaxed);
  cell.place.store(found.place, std::memory_order_relaxed);
  cell.rule.store(word, std::memory_order_relaxed);
  return found;
}

}  // namespace memo
