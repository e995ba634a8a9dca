// A loop whose blocks are written in a few places only, or lie far apart, has memory for what it
// writes, as it has with the system's allocator: the slab is not populated for it, and calloc does
// not write zeros.
#include "room.h"
#include "support.h"

enum { kBlocks = 10, kFar = 4 };

// Beyond 32 MiB, where the system's allocator maps each block by itself. Each case has its own.
static size_t block_size(unsigned i, unsigned number) {
  return MIB(33) + KIB(8) * i + MIB(5) * number;
}

// Blocks of each case.
static unsigned both_ends = kBlocks, zeroed = kBlocks, far_apart = kFar;

// As many, fewer where they would not fit into a slab, which may have half of the machine's memory, or
// where not so much is left that slab, pool and the underlying allocator can each have the gaps
// between them: under strict overcommit these count.
static unsigned blocks_of(unsigned usual, size_t each) {
  const size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  while (usual > 1 && (usual * each > all * 7 / 16 || !has_memory(usual * each * 3, each)))
    --usual;
  return usual;
}

static void write_ends(unsigned char* block, size_t size, unsigned i) {
  block[0] = block[size - 1] = (unsigned char)(i + 1);
}

static void blocks_written_at_both_ends(void) {
  unsigned char* blocks[kBlocks];
  const unsigned count = both_ends;
  for (unsigned i = 0; i < count; ++i) {
    blocks[i] = malloc(block_size(i, 0));
    CHECK(blocks[i] != NULL);
    write_ends(blocks[i], block_size(i, 0), i);
  }
  for (unsigned i = 0; i < count; ++i) {
    CHECK(blocks[i][0] == i + 1 && blocks[i][block_size(i, 0) - 1] == i + 1);
    free(blocks[i]);
  }
}

// What is read here is not written: one page in 64 of each block.
static void zeroed_blocks_written_at_both_ends(void) {
  unsigned char* blocks[kBlocks];
  const unsigned count = zeroed;
  for (unsigned i = 0; i < count; ++i) {
    blocks[i] = calloc(1, block_size(i, 1));
    CHECK(blocks[i] != NULL);
    CHECK(blocks[i][block_size(i, 1) - 1] == 0);
    for (size_t at = 0; at < block_size(i, 1); at += KIB(256))
      CHECK(all_zero(blocks[i] + at, 100));
    write_ends(blocks[i], block_size(i, 1), i);
  }
  for (unsigned i = 0; i < count; ++i)
    free(blocks[i]);
}

// A slab of 250 MiB, of which eight are blocks.
static void blocks_far_apart(void) {
  void* blocks[kFar];
  const unsigned count = far_apart;
  for (unsigned i = 0; i < count; ++i) {
    blocks[i] = aligned_alloc(MIB(64), MIB(2));
    CHECK(blocks[i] != NULL && (uintptr_t)blocks[i] % MIB(64) == 0);
    memset(blocks[i], 1 + (int)i, MIB(2));
  }
  for (unsigned i = 0; i < count; ++i) {
    CHECK(((unsigned char*)blocks[i])[MIB(2) - 1] == 1 + i);
    free(blocks[i]);
  }
}

int main(void) {
  both_ends = blocks_of(kBlocks, block_size(kBlocks, 0));
  zeroed = blocks_of(kBlocks, block_size(kBlocks, 1));
  far_apart = blocks_of(kFar, MIB(64));
  const struct test_case cases[] = {
      CASE(blocks_written_at_both_ends, both_ends),
      CASE(zeroed_blocks_written_at_both_ends, zeroed),
      CASE(blocks_far_apart, far_apart),
  };
  const int code = RUN_CASES(cases);
  CHECK(peak_kib() > 0 && peak_kib() < 96 << 10);
  return code;
}
