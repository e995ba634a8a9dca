// Refuses the library's system calls: loaded behind libmemomalloc.so, it turns the functions that
// the library has for them, and the entries of its own global offset table, to stubs, before any
// constructor runs. A stub counts the
// occasions of each place (the function, and the return address inside the library), and either
// jumps on to the function or answers as the function would where the kernel says no. Calls of the
// C library and of the program itself do not come this way. run.py tells it what to do:
//   REFUSE_NAMES  the functions to be turned, separated by colons
//   REFUSE_TABLE  a file of sizeof(struct table) bytes: what was seen, shared by all processes
//   REFUSE        rules separated by commas, name:place:form:errno:n:once|ever each; the place is
//   the
//                 offset in hex, or 0 for any
// Hot, since malloc runs through it: no allocation, no lock.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/turn_names.h"

#ifndef __x86_64__
#error "the stubs are written for x86-64"
#endif

enum { kMaxNames = 128, kMaxPlaces = 1024, kMaxRules = 8 };

// One row for each place; run.py reads them as 4 * 8 bytes.
struct place {
  _Atomic uint64_t key;       // (function + 1) << 48 | offset of the return address; 0: free
  _Atomic uint64_t argument;  // the first one seen, plus 1: the number, where it is syscall()
  _Atomic uint64_t most;      // occasions in the process that had most of them
  _Atomic uint64_t refused;   // in all processes
};
struct table {
  struct place places[kMaxPlaces];
};

// What a stub saves of its caller's registers, in the order of memory.
struct registers {
  uint64_t rax, rdi, rsi, rdx, rcx, r8, r9;
};

enum form { kMinus, kNull, kCode, kZero, kHalf, kAfter };
static const char* const form_names[] = {"minus", "null", "code", "zero", "half", "after"};

static struct rule {
  int function;
  uint64_t place;
  enum form form;
  int error;
  uint64_t first, last;  // occasions of this process, the first one is 1
  _Atomic uint64_t occasions;
} rules[kMaxRules];
static int rule_count;

static struct table* table;
static _Atomic uint64_t occasions[kMaxPlaces];  // of each place, in this process
static uintptr_t base, end;                     // of the library
static __thread int refused_with __attribute__((tls_model("initial-exec")));
uintptr_t refuse_targets[kMaxNames] __attribute__((visibility("hidden")));

static struct place* find_place(uint64_t key, uint64_t argument) {
  for (uint64_t probe = key * 0x9E3779B97F4A7C15U >> 54, i = 0; i < kMaxPlaces; ++i) {
    struct place* place = &table->places[(probe + i) % kMaxPlaces];
    uint64_t found = 0;
    if (atomic_compare_exchange_strong(&place->key, &found, key)) {
      place->argument = argument + 1;
      return place;
    }
    if (found == key)
      return place;
  }
  return NULL;
}

// The register that says how many bytes are to be read or written: write(file, start, count), and
// one later in syscall(number, file, start, count).
static uint64_t* count_of(struct registers* in, uintptr_t target) {
  return target == (uintptr_t)&syscall ? &in->rcx : &in->rdx;
}

static int refuse(const struct rule* rule, struct place* place, struct registers* in) {
  if (rule->form == kHalf) {
    uint64_t* count = count_of(in, refuse_targets[rule->function]);
    place->refused += *count > 1;
    *count -= *count / 2;
    return 0;
  }
  ++place->refused;
  if (rule->form == kCode) {
    in->rax = (uint64_t)rule->error;
    return 1;
  }
  in->rax = rule->form == kMinus || rule->form == kAfter ? UINT64_MAX : 0;
  errno = refused_with = rule->error;
  return rule->form == kAfter ? 2 : 1;
}

// 0: the call goes on; 1: it is answered with in->rax; 2: it is made, and then answered so.
__attribute__((visibility("hidden"))) int refuse_decide(uint64_t function, uint64_t caller,
                                                        struct registers* in) {
  const uint64_t offset = caller - base < end - base ? caller - base : 0;
  struct place* place = find_place((function + 1) << 48 | offset, in->rdi);
  if (place == NULL)
    return 0;
  const uint64_t here = atomic_fetch_add(&occasions[place - table->places], 1) + 1;
  uint64_t most = place->most;
  while (most < here && !atomic_compare_exchange_weak(&place->most, &most, here)) {
  }
  for (struct rule* rule = rules; rule < rules + rule_count; ++rule) {
    if ((int)function != rule->function || (rule->place != 0 && rule->place != offset))
      continue;
    const uint64_t now = atomic_fetch_add(&rule->occasions, 1) + 1;
    if (now >= rule->first && now <= rule->last)
      return refuse(rule, place, in);
  }
  return 0;
}

// After a call that was made although it is refused.
__attribute__((visibility("hidden"))) void refuse_after(void) {
  errno = refused_with;
}

// A stub pushes its number and goes to the common part, which keeps every register that holds an
// argument. No call that is turned has arguments on the stack.
// The unwinder steps over it by the table: the caller's frame lies 16 bytes above the number.
__asm__(
    ".text\n"
    ".globl refuse_stubs\n.hidden refuse_stubs\n"
    ".p2align 4\n"
    "refuse_stubs:\n"
    ".set number, 0\n"
    ".rept 128\n"
    "  .p2align 4\n"
    "  .cfi_startproc\n"
    "  pushq $number\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  jmp refuse_common\n"
    "  .cfi_endproc\n"
    "  .set number, number + 1\n"
    ".endr\n"
    ".p2align 4\n"
    "refuse_common:\n"
    "  .cfi_startproc\n"
    "  .cfi_def_cfa_offset 16\n"
    "  pushq %rbp\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  .cfi_offset %rbp, -24\n"
    "  movq %rsp, %rbp\n"
    "  .cfi_def_cfa_register %rbp\n"
    "  subq $192, %rsp\n"
    "  andq $-16, %rsp\n"
    "  movq %rax, 0(%rsp)\n"
    "  movq %rdi, 8(%rsp)\n"
    "  movq %rsi, 16(%rsp)\n"
    "  movq %rdx, 24(%rsp)\n"
    "  movq %rcx, 32(%rsp)\n"
    "  movq %r8, 40(%rsp)\n"
    "  movq %r9, 48(%rsp)\n"
    "  movups %xmm0, 64(%rsp)\n"
    "  movups %xmm1, 80(%rsp)\n"
    "  movups %xmm2, 96(%rsp)\n"
    "  movups %xmm3, 112(%rsp)\n"
    "  movups %xmm4, 128(%rsp)\n"
    "  movups %xmm5, 144(%rsp)\n"
    "  movups %xmm6, 160(%rsp)\n"
    "  movups %xmm7, 176(%rsp)\n"
    "  movq 8(%rbp), %rdi\n"
    "  movq 16(%rbp), %rsi\n"
    "  movq %rsp, %rdx\n"
    "  call refuse_decide\n"
    "  movl %eax, %r11d\n"
    "  movq 0(%rsp), %rax\n"
    "  movq 8(%rsp), %rdi\n"
    "  movq 16(%rsp), %rsi\n"
    "  movq 24(%rsp), %rdx\n"
    "  movq 32(%rsp), %rcx\n"
    "  movq 40(%rsp), %r8\n"
    "  movq 48(%rsp), %r9\n"
    "  movups 64(%rsp), %xmm0\n"
    "  movups 80(%rsp), %xmm1\n"
    "  movups 96(%rsp), %xmm2\n"
    "  movups 112(%rsp), %xmm3\n"
    "  movups 128(%rsp), %xmm4\n"
    "  movups 144(%rsp), %xmm5\n"
    "  movups 160(%rsp), %xmm6\n"
    "  movups 176(%rsp), %xmm7\n"
    "  cmpl $1, %r11d\n"
    "  ja 2f\n"
    "  leaq refuse_targets(%rip), %r11\n"
    "  movq 8(%rbp), %r10\n"
    "  movq (%r11,%r10,8), %r11\n"
    "  leave\n"
    "  .cfi_def_cfa %rsp, 16\n"
    "  .cfi_restore %rbp\n"
    "  jb 3f\n"
    "  addq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  ret\n"
    "3:\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  leaq 8(%rsp), %rsp\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  jmp *%r11\n"
    "2:\n"
    "  .cfi_def_cfa %rbp, 24\n"
    "  .cfi_offset %rbp, -24\n"
    "  leaq refuse_targets(%rip), %r11\n"
    "  movq 8(%rbp), %r10\n"
    "  call *(%r11,%r10,8)\n"
    "  call refuse_after\n"
    "  movq $-1, %rax\n"
    "  leave\n"
    "  .cfi_def_cfa %rsp, 16\n"
    "  addq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  ret\n"
    "  .cfi_endproc\n");
extern const char refuse_stubs[] __attribute__((visibility("hidden")));

// The number of a name in a list separated by colons, or -1.
static int number_of(const char* list, const char* name, size_t length) {
  for (int i = 0; list != NULL && *list != 0; ++i) {
    const size_t here = strcspn(list, ":");
    if (here == length && memcmp(list, name, length) == 0)
      return i < kMaxNames ? i : -1;
    list += here + (list[here] == ':');
  }
  return -1;
}

static const char* variable(char** environment, const char* name) {
  const size_t length = strlen(name);
  for (; *environment != NULL; ++environment) {
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
      return *environment + length + 1;
  }
  return NULL;
}

static void say_and_end(const char* reason) {
  if (write(STDERR_FILENO, reason, strlen(reason)) < 0)
    _exit(124);
  _exit(125);
}

// Reads one rule and returns where it ends.
static const char* read_rule(const char* text, const char* names, struct rule* rule) {
  const size_t name = strcspn(text, ":");
  rule->function = number_of(names, text, name);
  char* at = (char*)text + name;
  if (rule->function < 0 || *at != ':')
    say_and_end("refuse: no such function\n");
  rule->place = strtoull(at + 1, &at, 16);
  const size_t form = strcspn(at + 1, ":");
  unsigned known = 0;
  while (known < 6 &&
         (strlen(form_names[known]) != form || memcmp(form_names[known], at + 1, form) != 0))
    ++known;
  if (known == 6)
    say_and_end("refuse: no such form\n");
  rule->form = (enum form)known;
  at += 1 + form;
  rule->error = (int)strtol(at + 1, &at, 10);
  rule->first = strtoull(at + 1, &at, 10);
  rule->last = strtoull(at + 1, &at, 10);
  return at + strcspn(at, ",");
}

static void read_rules(const char* text, const char* names) {
  while (*text != 0 && rule_count < kMaxRules) {
    text = read_rule(text, names, &rules[rule_count++]);
    text += *text == ',';
  }
}

struct symbols {
  const ElfW(Sym) * all;
  const char *strings, *wanted;  // the second one: names separated by colons
};

static void turn(const struct link_map* library, const ElfW(Rela) * rows, size_t bytes,
                 const struct symbols* symbols) {
  for (const ElfW(Rela)* row = rows; row < rows + bytes / sizeof *rows; ++row) {
    const uint64_t kind = ELF64_R_TYPE(row->r_info);
    if (kind != R_X86_64_JUMP_SLOT && kind != R_X86_64_GLOB_DAT && kind != R_X86_64_64)
      continue;
    const char* name = symbols->strings + symbols->all[ELF64_R_SYM(row->r_info)].st_name;
    const int number = number_of(symbols->wanted, name, strlen(name));
    if (number < 0)
      continue;
    uintptr_t* entry = (uintptr_t*)(library->l_addr + row->r_offset);
    const uintptr_t page = (uintptr_t)entry & ~(uintptr_t)4095;
    if (mprotect((void*)page, 4096 + sizeof *entry, PROT_READ | PROT_WRITE) != 0 &&
        mprotect((void*)page, 4096, PROT_READ | PROT_WRITE) != 0)
      say_and_end("refuse: the table cannot be written\n");
    refuse_targets[number] = *entry;
    *entry = (uintptr_t)refuse_stubs + 16 * (uintptr_t)number;
  }
}

// Those of the library's own functions; the C library's does what is not refused.
static void turn_own(const char* name, uintptr_t at, void* data) {
  const int number = number_of(data, name, strlen(name));
  if (number < 0)
    return;
  refuse_targets[number] = (uintptr_t)dlsym(RTLD_NEXT, name);
  if (refuse_targets[number] == 0 || !turn_code(at, refuse_stubs + 16 * (size_t)number))
    say_and_end("refuse: the code cannot be turned\n");
}

// Before all other constructors (-z initfirst); the environment comes as an argument, since the C
// library's own constructor has not run either.
__attribute__((constructor)) static void start(int count, char** arguments, char** environment) {
  (void)count, (void)arguments;
  const char* names = variable(environment, "REFUSE_NAMES");
  const char* path = variable(environment, "REFUSE_TABLE");
  const struct link_map* library = find_library();
  if (names == NULL || path == NULL || library == NULL)
    return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return;  // a child in another root folder, or without files: it runs as it is
  table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (table == MAP_FAILED)
    return;
  const char* wish = variable(environment, "REFUSE");
  if (wish != NULL)
    read_rules(wish, names);
  base = library->l_addr;
  end = end_of(library);
  uintptr_t rows[DT_NUM] = {0};
  for (const ElfW(Dyn)* row = library->l_ld; row->d_tag != DT_NULL; ++row) {
    if (row->d_tag > 0 && row->d_tag < DT_NUM)
      rows[row->d_tag] = row->d_un.d_val;
  }
  const struct symbols symbols = {(const void*)rows[DT_SYMTAB], (const char*)rows[DT_STRTAB],
                                  names};
  turn(library, (const void*)rows[DT_RELA], rows[DT_RELASZ], &symbols);
  turn(library, (const void*)rows[DT_JMPREL], rows[DT_PLTRELSZ], &symbols);
  each_function(library, turn_own, (void*)names);
}
