// Turns functions that the library has for itself, hidden from all others, to a test's: their first instructions become a
// jump. The library's file must have its symbols (.symtab).
#pragma once

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline const struct link_map* find_library(void) {
  const struct link_map* library = _r_debug.r_map;
  while (library != NULL && strstr(library->l_name, "/libmemomalloc.so") == NULL)
    library = library->l_next;
  return library;
}

// Where it ends in memory, by its program headers; it begins at l_addr.
static inline uintptr_t end_of(const struct link_map* library) {
  const uintptr_t base = library->l_addr;
  const ElfW(Ehdr)* header = (const ElfW(Ehdr)*)base;
  const ElfW(Phdr)* part = (const ElfW(Phdr)*)(base + header->e_phoff);
  uintptr_t end = 0;
  for (int i = 0; i < header->e_phnum; ++i) {
    if (part[i].p_type == PT_LOAD && base + part[i].p_vaddr + part[i].p_memsz > end)
      end = base + part[i].p_vaddr + part[i].p_memsz;
  }
  return end;
}

// False where the code cannot be written.
static inline int turn_code(uintptr_t at, const void* to) {
#if defined(__x86_64__)
  unsigned char jump[14] = {0xff, 0x25};  // jmp *0(%rip)
  memcpy(jump + 6, &to, sizeof to);
#elif defined(__aarch64__)
  uint32_t jump[4] = {0x58000050, 0xd61f0200};  // ldr x16, 8; br x16
  memcpy(jump + 2, &to, sizeof to);
#else
#error "the jump is written for x86-64 and AArch64"
#endif
  const uintptr_t page = at & ~(uintptr_t)4095;
  if (syscall(SYS_mprotect, page, at + sizeof jump - page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    return 0;
  memcpy((void*)at, jump, sizeof jump);
  __builtin___clear_cache((char*)at, (char*)at + sizeof jump);
  return 1;
}

// Calls visit(name, address, data) for each function that the library does not export; one that the linker has put in
// another's place (--wrap) by that one's name.
static inline void each_function(const struct link_map* library,
                                 void (*visit)(const char* name, uintptr_t at, void* data),
                                 void* data) {
  const int file = open(library->l_name, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0)
    return;
  const char* all = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (all == MAP_FAILED)
    return;
  const ElfW(Ehdr)* header = (const ElfW(Ehdr)*)all;
  const ElfW(Shdr)* sections = (const ElfW(Shdr)*)(all + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB)
      continue;
    const char* names = all + sections[sections[i].sh_link].sh_offset;
    const ElfW(Sym)* symbol = (const ElfW(Sym)*)(all + sections[i].sh_offset);
    const ElfW(Sym)* end = symbol + sections[i].sh_size / sizeof *symbol;
    for (; symbol < end; ++symbol) {
      if (symbol->st_info == ELF64_ST_INFO(STB_LOCAL, STT_FUNC) && symbol->st_shndx != SHN_UNDEF)
        visit(
            names + symbol->st_name + (strncmp(names + symbol->st_name, "__wrap_", 7) == 0 ? 7 : 0),
            library->l_addr + symbol->st_value, data);
    }
  }
  munmap((void*)all, (size_t)status.st_size);
}
