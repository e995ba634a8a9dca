// Reads ELF files through a read-only mapping, checking every offset against the file's size. Cold.
#include "src/cli/run/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace memo::cli {
namespace {

struct Mapping {
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status{};
    if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      size = static_cast<std::size_t>(status.st_size);
      void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
      data = address == MAP_FAILED ? nullptr : static_cast<const char*>(address);
    }
    if (file >= 0) {
      close(file);
    }
  }
  ~Mapping() {
    if (data != nullptr) {
      munmap(const_cast<char*>(data), size);
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  template <typename T>
  bool read(std::uint64_t offset, T& value) const {
    if (offset > size || size - offset < sizeof value) {
      return false;
    }
    std::memcpy(&value, data + offset, sizeof value);
    return true;
  }
  // The zero-terminated string at `offset`, empty if it does not end in the file.
  [[nodiscard]] std::string text(std::uint64_t offset) const {
    const void* end = offset < size ? std::memchr(data + offset, 0, size - offset) : nullptr;
    return end != nullptr ? std::string(data + offset) : "";
  }

  const char* data = nullptr;
  std::size_t size = 0;
};

void read_interpreter(const Mapping& file, const Elf64_Ehdr& header, ElfFile& elf) {
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (file.read(header.e_phoff + i * sizeof segment, segment) && segment.p_type == PT_INTERP) {
      elf.interpreter = file.text(segment.p_offset);
    }
  }
}

bool is_name(const Mapping& file, std::uint64_t name_at, std::string_view name) {
  return name_at < file.size && file.size - name_at > name.size() &&
         std::memcmp(file.data + name_at, name.data(), name.size()) == 0 &&
         file.data[name_at + name.size()] == '\0';
}

template <typename Names>
void note(const Mapping& file, std::uint64_t name_at, const Names& names,
          std::set<std::string>& found) {
  for (const std::string_view name : names) {
    if (is_name(file, name_at, name)) {
      found.emplace(name);
    }
  }
}

void read_symbols(const Mapping& file, const Elf64_Ehdr& header, ElfFile& elf) {
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table{};
    Elf64_Shdr names{};
    if (!file.read(header.e_shoff + i * sizeof table, table) ||
        (table.sh_type != SHT_DYNSYM && table.sh_type != SHT_SYMTAB) ||
        !file.read(header.e_shoff + table.sh_link * sizeof names, names)) {
      continue;
    }
    Elf64_Sym symbol{};
    for (std::uint64_t at = 0; at + sizeof symbol <= table.sh_size; at += sizeof symbol) {
      if (!file.read(table.sh_offset + at, symbol)) {
        break;
      }
      if (symbol.st_shndx == SHN_UNDEF) {
        continue;
      }
      const std::uint64_t name_at = names.sh_offset + symbol.st_name;
      note(file, name_at, kTensorNames, elf.tensors);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) {
        note(file, name_at, kAllocatorFunctions, elf.allocators);
      }
    }
  }
}

}  // namespace

std::uint16_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#elif defined(__riscv)
  return EM_RISCV;
#else
  return EM_NONE;
#endif
}

std::optional<ElfFile> read_elf(const std::string& path) {
  const Mapping file(path);
  Elf64_Ehdr header{};
  if (file.data == nullptr || !file.read(0, header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return std::nullopt;
  }
  ElfFile elf;
  elf.machine = header.e_machine;  // at the same place in 32-bit files
  elf.is_64_bit = header.e_ident[EI_CLASS] == ELFCLASS64;
  if (elf.is_64_bit) {
    read_interpreter(file, header, elf);
    read_symbols(file, header, elf);
  }
  return elf;
}

}  // namespace memo::cli
