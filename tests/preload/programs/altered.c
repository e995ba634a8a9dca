// What a program does to its blocks' pages ends with their free: protection, fixed mappings, advice that stays. The next
// block of the size is as a new one, whoever frees. free() bears a block that nobody may read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "support.h"

enum { kRounds = 12, kPidfdOpen = 434 };
static size_t page_size;

static void* aligned(size_t bytes) {
  void* block = NULL;
  CHECK(posix_memalign(&block, page_size, bytes) == 0);
  return block;
}

// The block may be read and written, is anonymous, and a child has it as it is.
static void is_fresh(void* block, size_t bytes) {
  memset(block, 5, bytes);
  CHECK(((char*)block)[0] == 5 && ((char*)block)[bytes - 1] == 5);
}

static const size_t kSizes[] = {KIB(128), MIB(1), MIB(9), MIB(33)};

// From 32 MiB on glibc maps each block by itself. Of smaller ones its heap keeps what was done to it.
static size_t first_size(void) {
  return serving_expected() ? 0 : 3;
}

// Rounds of blocks of all sizes, of which each is changed and freed.
static void in_rounds(void (*change)(char* block, size_t bytes)) {
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = first_size(); i < sizeof kSizes / sizeof kSizes[0]; ++i) {
      char* block = aligned(kSizes[i]);
      is_fresh(block, kSizes[i]);
      change(block, kSizes[i]);
      free(block);
    }
}

static void guard_page(char* block, size_t bytes) {
  (void)bytes;
  CHECK(mprotect(block, page_size, PROT_NONE) == 0);
}
static void read_only(char* block, size_t bytes) {
  CHECK(mprotect(block, bytes, PROT_READ) == 0);
}
static void unreadable(char* block, size_t bytes) {
  CHECK(mprotect(block, bytes, PROT_NONE) == 0);
}
static void page_in_the_middle(char* block, size_t bytes) {
  CHECK(mprotect(block + bytes / 2 / page_size * page_size, page_size, PROT_NONE) == 0);
}
static void executable(char* block, size_t bytes) {
  CHECK(mprotect(block, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
}

// Bytes of the next blocks must not come into the file.
static int file = -1;
static void of_a_file(char* block, size_t bytes) {
  CHECK(bytes >= 2 * page_size);
  CHECK(mmap(block, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == block);
  memcpy(block, "kept", 4);
}

static void not_in_children(char* block, size_t bytes) {
  CHECK(madvise(block, bytes, MADV_DONTFORK) == 0);
}
static void empty_in_children(char* block, size_t bytes) {
  CHECK(madvise(block, bytes, MADV_WIPEONFORK) == 0);
}

// From Linux 6.13 on a process may advise itself so; before, the blocks stay as they are.
extern ssize_t process_madvise(int, const struct iovec*, size_t, int, unsigned)
    __attribute__((weak));
static void not_in_children_by_number(char* block, size_t bytes) {
  const struct iovec all = {block, bytes};
  const int self = (int)syscall(kPidfdOpen, getpid(), 0);
  if (process_madvise == NULL || self < 0)
    return;
  const ssize_t done = process_madvise(self, &all, 1, MADV_DONTFORK, 0);
  CHECK(done == (ssize_t)bytes || errno == EINVAL || errno == ENOSYS || errno == EPERM);
  close(self);
}

static int is_executable(const void* at) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  int found = 0;
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) {
    unsigned long from, to;
    char access[5];
    if (sscanf(line, "%lx-%lx %4s", &from, &to, access) == 3 && from <= (uintptr_t)at &&
        (uintptr_t)at < to)
      found = access[2] == 'x';
  }
  fclose(maps);
  return found;
}

static void ends_with_free(void) {
  in_rounds(guard_page);
  in_rounds(read_only);
  in_rounds(unreadable);
  in_rounds(page_in_the_middle);
  in_rounds(executable);
  char* block = aligned(MIB(33));
  is_fresh(block, MIB(33));
  CHECK(!is_executable(block));
  free(block);
}

// Neither begins nor ends with a page, where pages are large: what is left of it there is not zero.
static void reads_zeros(void) {
  for (int round = 0; round < 4 * kRounds; ++round) {
    const size_t bytes = KIB(100);
    char* block = malloc(bytes);
    is_fresh(block, bytes);
    mlock(block, bytes);  // may be refused
    free(block);
    block = calloc(1, bytes);
    CHECK(block != NULL && all_zero(block, bytes));
    free(block);
  }
}

static void keeps_files(void) {
  char name[] = "/tmp/memomalloc-altered-XXXXXX";
  char text[4];
  file = mkstemp(name);
  CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, (off_t)page_size) == 0);
  in_rounds(of_a_file);
  for (size_t i = first_size(); i < sizeof kSizes / sizeof kSizes[0]; ++i) {
    char* block = aligned(kSizes[i]);
    memset(block, 9, kSizes[i]);
    free(block);
  }
  CHECK(pread(file, text, sizeof text, 0) == sizeof text && memcmp(text, "kept", 4) == 0);
  close(file);
}

static void comes_into_children(void) {
  in_rounds(not_in_children);
  in_rounds(empty_in_children);
  in_rounds(not_in_children_by_number);
  char* block = aligned(MIB(33));
  is_fresh(block, MIB(33));
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0)
    _exit(block[0] == 5 && block[MIB(33) - 1] == 5 ? 0 : 1);
  ends_well_within(child, 20);
  free(block);
}

// The next writer would wait for a handler of page faults that nobody is any more.
static void is_nobodys_fault(void) {
  const int fd =
      (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* of user space alone */);
  struct uffdio_api api = {.api = UFFD_API};
  if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0)
    return;  // not here
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = first_size(); i < sizeof kSizes / sizeof kSizes[0]; ++i) {
      char* block = aligned(kSizes[i]);
      struct uffdio_register range = {.range = {(uintptr_t)block, kSizes[i]},
                                      .mode = UFFDIO_REGISTER_MODE_MISSING};
      // The kernel reads 32 bits of the request, which an int has as well.
      const unsigned long request =
          round % 2 == 0 ? (unsigned long)(int)UFFDIO_REGISTER : UFFDIO_REGISTER;
      CHECK(ioctl(fd, request, &range) == 0);
      free(block);
      block = aligned(kSizes[i]);
      is_fresh(block, kSizes[i]);
      free(block);
    }
  close(fd);
}

static int is_locked(const char* at) {
  FILE* maps = fopen("/proc/self/smaps", "r");
  char line[512];
  int found = 0, inside = 0;
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) {
    unsigned long from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
      inside = from <= (uintptr_t)at && (uintptr_t)at < to;
    else if (inside && strncmp(line, "VmFlags:", 8) == 0)
      found = strstr(line, " lo ") != NULL;
  }
  fclose(maps);
  return found;
}

// A few pages of each, since most users may lock little.
static void lock_pages(char* block, size_t bytes) {
  (void)bytes;
  mlock(block, 2 * page_size);
}
static void is_not_locked(void) {
  in_rounds(lock_pages);
  for (size_t i = first_size(); i < sizeof kSizes / sizeof kSizes[0]; ++i) {
    char* block = aligned(kSizes[i]);
    is_fresh(block, kSizes[i]);
    CHECK(!is_locked(block));
    free(block);
  }
}

// A pipe has the pages of a block that was freed; the next block's bytes do not come into it.
static void is_read_from_a_pipe(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = first_size(); i < sizeof kSizes / sizeof kSizes[0]; ++i) {
      char read_back[4096];
      char* block = aligned(kSizes[i]);
      struct iovec part = {block, sizeof read_back};
      memset(block, 1, kSizes[i]);
      CHECK(vmsplice(ends[1], &part, 1, 0) == (ssize_t)sizeof read_back);
      free(block);
      block = aligned(kSizes[i]);
      memset(block, 2, kSizes[i]);
      CHECK(read(ends[0], read_back, sizeof read_back) == (ssize_t)sizeof read_back);
      CHECK(read_back[0] == 1 && read_back[sizeof read_back - 1] == 1);
      free(block);
    }
  close(ends[0]);
  close(ends[1]);
}

// What pages the program has put into a block is in it after realloc, though no page table of the process names them yet.
static void is_kept_by_realloc(void) {
  enum { kBytes = MIB(33), kAt = MIB(8), kPart = MIB(1) };
  const size_t after[] = {kBytes + MIB(9), kBytes, kBytes - KIB(64), kBytes - MIB(20)};
  for (size_t i = 0; i < sizeof after / sizeof after[0]; ++i) {
    const int memory = (int)syscall(SYS_memfd_create, "part", 0);
    char* block = aligned(kBytes);
    memset(block, 5, kBytes);
    CHECK(memory >= 0 && ftruncate(memory, kPart) == 0);
    for (size_t at = 0; at < kPart; at += page_size)
      CHECK(pwrite(memory, "x", 1, (off_t)at) == 1);
    CHECK(mmap(block + kAt, kPart, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
          block + kAt);
    block = realloc(block, after[i]);
    CHECK(block != NULL);
    for (size_t at = 0; at < kPart; at += page_size)
      CHECK(block[kAt + at] == 'x');
    CHECK(block[0] == 5 && block[kAt - 1] == 5 && block[kAt + kPart] == 5);
    free(block);
    close(memory);
  }
}

// A block that is made smaller stays where it is, and so do the locks and guards in it.
static void stays_in_place(void) {
  char* block = aligned(MIB(40));
  CHECK(mprotect(block + MIB(1), page_size, PROT_NONE) == 0);
  CHECK(realloc(block, MIB(30)) == block);
  CHECK(realloc(block, MIB(2)) == block);
  CHECK(mprotect(block + MIB(1), page_size, PROT_READ | PROT_WRITE) == 0);
  free(block);
}

static const struct part kParts[] = {{"ends_with_free", ends_with_free},
                                     {"reads_zeros", reads_zeros},
                                     {"keeps_files", keeps_files},
                                     {"comes_into_children", comes_into_children},
                                     {"is_nobodys_fault", is_nobodys_fault},
                                     {"is_not_locked", is_not_locked},
                                     {"is_read_from_a_pipe", is_read_from_a_pipe},
                                     {"is_kept_by_realloc", is_kept_by_realloc},
                                     {"stays_in_place", stays_in_place}};

int main(int count, char** words) {
  end_after(200);
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  return run_parts(count, words, kParts, sizeof kParts / sizeof kParts[0]);
}
