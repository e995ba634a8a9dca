// torch's functions for tensors, c10::alloc_cpu and c10::free_cpu, of stand-ins that are loaded as
// torch's are (tests/preload/fakes): one that goes through malloc, one with an allocator of its own,
// and both at once. Each keeps its contract, its failures and its flags; large blocks of both come
// from a slab, each counted once; a block goes back to the copy that it came from.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdexcept>

#include "support.h"

// The objects, in this program, so that it is one file.
#define OBJECT(name, path)                                                                   \
  asm(".pushsection .rodata\n.balign 16\n" #name ":\n.incbin \"" FAKES "/" path "\"\n" #name \
      "_end:\n.popsection\n");                                                               \
  extern "C" __attribute__((visibility("hidden"))) const char name[];                        \
  extern "C" __attribute__((visibility("hidden"))) const char name##_end[];
OBJECT(plain_c10, "libc10-plain.so")
OBJECT(plain_tensors, "libtensors-plain.so")
OBJECT(hidden_c10, "libc10-hidden.so")
OBJECT(hidden_tensors, "libtensors-hidden.so")
OBJECT(flagless_c10, "libc10-flagless.so")
OBJECT(flagless_tensors, "libtensors-flagless.so")
OBJECT(renamed_c10, "libc10-renamed.so")
OBJECT(renamed_tensors, "libtensors-renamed.so")

namespace {

char folder[] = "/tmp/c10_functions.XXXXXX";

const char* path_of(const char* name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

const struct {
  const char* name;
  const char* begin;
  const char* end;
} objects[] = {{"libc10-plain.so", plain_c10, plain_c10_end},
               {"libtensors-plain.so", plain_tensors, plain_tensors_end},
               {"libc10-hidden.so", hidden_c10, hidden_c10_end},
               {"libtensors-hidden.so", hidden_tensors, hidden_tensors_end},
               {"libc10-flagless.so", flagless_c10, flagless_c10_end},
               {"libtensors-flagless.so", flagless_tensors, flagless_tensors_end},
               {"libc10-renamed.so", renamed_c10, renamed_c10_end},
               {"libtensors-renamed.so", renamed_tensors, renamed_tensors_end}};

void write_objects() {
  CHECK(mkdtemp(folder) != NULL);
  for (const auto& [name, begin, end] : objects) {
    const int file = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0700);
    CHECK(file >= 0 && write(file, begin, (size_t)(end - begin)) == end - begin);
    CHECK(close(file) == 0);
  }
}

void remove_objects() {
  for (const auto& object : objects)
    unlink(path_of(object.name));
  rmdir(folder);
}

struct Library {
  const char* name;
  void* handle;
  void* (*alloc)(size_t);
  void (*free)(void*);
  void* (*alloc_elsewhere)(size_t);
  void (*free_elsewhere)(void*);
  void (*(*deleter)())(void*);
  size_t (*asked)();
  size_t (*freed)();
  bool* zero_fill;
  bool* junk_fill;
};

template <typename Symbol>
void find(const Library& library, const char* name, Symbol& symbol) {
  symbol = reinterpret_cast<Symbol>(dlsym(library.handle, name));
  CHECK(symbol != nullptr);
}

Library load(const char* kind, int how) {
  Library library{};
  library.name = kind;
  char name[32];
  snprintf(name, sizeof name, "libtensors-%s.so", kind);
  library.handle = dlopen(path_of(name), RTLD_NOW | how);
  if (library.handle == nullptr)
    dprintf(STDERR_FILENO, "%s\n", dlerror());
  CHECK(library.handle != nullptr);
  find(library, "tensor_of", library.alloc);
  find(library, "release_tensor", library.free);
  find(library, "tensor_elsewhere", library.alloc_elsewhere);
  find(library, "release_elsewhere", library.free_elsewhere);
  find(library, "deleter_elsewhere", library.deleter);
  find(library, "tensors_asked", library.asked);
  find(library, "tensors_freed", library.freed);
  if (strcmp(kind, "flagless") != 0) {
    find(library, "FLAGS_caffe2_cpu_allocator_do_zero_fill", library.zero_fill);
    find(library, "FLAGS_caffe2_cpu_allocator_do_junk_fill", library.junk_fill);
  }
  return library;
}

constexpr size_t kSizes[] = {100, KIB(60), KIB(64), 300001, MIB(1) + 5};

void contract(const Library& library) {
  CHECK(library.alloc(0) == NULL && library.alloc_elsewhere(0) == NULL);
  library.free(NULL);
  for (int round = 0; round < 4; ++round) {
    void* blocks[2 * sizeof kSizes / sizeof *kSizes];
    unsigned count = 0;
    for (const size_t size : kSizes) {
      blocks[count++] = library.alloc(size);
      blocks[count++] = library.alloc_elsewhere(size);
      for (unsigned i = count - 2; i < count; ++i) {
        CHECK(blocks[i] != NULL && (uintptr_t)blocks[i] % 64 == 0);
        fill((char*)blocks[i], size, i);
      }
    }
    for (unsigned i = 0; i < count; ++i) {
      CHECK(filled((char*)blocks[i], kSizes[i / 2], i));
      (i % 2 == 0 ? library.free : library.free_elsewhere)(blocks[i]);
    }
  }
}

void check_failure(const Library& library, void* (*alloc)(size_t), size_t size) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%s: no memory", library.name);
  bool thrown = false;
  try {
    alloc(size);
  } catch (const std::runtime_error& error) {
    thrown = strcmp(error.what(), wanted) == 0;
  }
  CHECK(thrown);
}

void failures(const Library& library) {
  for (void* (*alloc)(size_t) : {library.alloc, library.alloc_elsewhere}) {
    check_failure(library, alloc, SIZE_MAX);
    check_failure(library, alloc, (size_t)PTRDIFF_MAX + 1);
    check_failure(library, alloc, (size_t)1 << 60);
  }
}

void flags(const Library& library) {
  for (const size_t size : {KIB(1), MIB(1)})
    for (bool* flag : {library.zero_fill, library.junk_fill})
      for (int i = 0; i < 4; ++i) {
        void* used = library.alloc(size);
        memset(used, 0x33, size);
        library.free(used);
        *flag = true;
        char* block = (char*)library.alloc(size);
        const char wanted = flag == library.zero_fill ? 0 : 0x7F;
        for (size_t at = 0; at < size; at += 97)
          CHECK(block[at] == wanted);
        *flag = false;
        library.free(block);
      }
}

// By the function's address, from an object that knows of no libc10.
void deleted(const Library& library) {
  for (const size_t size : kSizes)
    library.deleter()(library.alloc(size));
}

// A loop of tensors is learned and served; each call counts once.
void served(const Library& library) {
  constexpr int kIterations = 400;
  const long before = counter("large_allocations");
  const long planned_before = counter("planned_allocations");
  for (int i = 0; i < kIterations; ++i) {
    char* input = (char*)library.alloc(KIB(200));
    char* middle = (char*)library.alloc_elsewhere(KIB(100));
    fill(input, KIB(200), 1);
    fill(middle, KIB(100), 2);
    char* output = (char*)library.alloc(KIB(150));
    CHECK(filled(input, KIB(200), 1) && filled(middle, KIB(100), 2));
    library.free_elsewhere(input);
    fill(output, KIB(150), 3);
    library.free_elsewhere(middle);
    library.free(output);
  }
  if (serving_expected()) {
    CHECK(counter("large_allocations") - before == 3 * kIterations);
    CHECK(counter("planned_allocations") - planned_before > 3 * kIterations / 2);
  }
}

// What an allocator of its own gave it gets back: as many as it was asked for, but for those that
// failed.
void check_counts(const Library& library) {
  constexpr size_t kFailed = 6;
  if (strcmp(library.name, "hidden") == 0)
    CHECK(library.asked() == library.freed() + kFailed);
}

// Two copies in one process, whose blocks live at the same time.
void together(const Library& a, const Library& b) {
  for (int i = 0; i < 6; ++i) {
    void* mine = a.alloc_elsewhere(KIB(40));
    void* other = b.alloc_elsewhere(KIB(40));
    void* large = a.alloc(MIB(1));
    void* larger = b.alloc(KIB(200));
    b.free_elsewhere(other);
    a.free_elsewhere(mine);
    b.free(larger);
    a.free(large);
  }
}

void try_library(const char* kind, int how) {
  const Library library = load(kind, how);
  contract(library);
  deleted(library);
  failures(library);
  flags(library);
  served(library);
  contract(library);
  check_counts(library);
}

void try_both() {
  const Library plain = load("plain", RTLD_LOCAL);
  const Library hidden = load("hidden", RTLD_LOCAL);
  for (const Library& library : {plain, hidden}) {
    contract(library);
    failures(library);
    flags(library);
  }
  together(plain, hidden);
  together(hidden, plain);
  served(hidden);
  check_counts(hidden);
}

// One of another release: each of its blocks comes from it, and goes back to it, whatever its size.
void try_unknown(const char* kind) {
  const Library library = load(kind, RTLD_LOCAL);
  contract(library);
  deleted(library);
  constexpr size_t kRounds = 100;
  const size_t before = library.asked();
  for (size_t i = 0; i < kRounds; ++i) {
    void* block = library.alloc(MIB(1));
    void* other = library.alloc_elsewhere(KIB(200));
    library.free_elsewhere(block);
    library.free(other);
  }
  CHECK(library.asked() == before + 2 * kRounds && library.asked() == library.freed());
}

// The library may be given back and loaded again.
void try_again() {
  for (int i = 0; i < 3; ++i) {
    const Library library = load("hidden", RTLD_LOCAL);
    contract(library);
    CHECK(dlclose(library.handle) == 0);
  }
}

template <typename Part>
void in_child(Part part) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    part();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main() {
  write_objects();
  in_child([] { try_library("plain", RTLD_LOCAL); });
  in_child([] { try_library("hidden", RTLD_LOCAL); });
  in_child([] { try_library("hidden", RTLD_GLOBAL); });
  in_child(try_both);
  in_child([] { try_unknown("flagless"); });
  in_child([] { try_unknown("renamed"); });
  in_child(try_again);
  remove_objects();
  return 0;
}
