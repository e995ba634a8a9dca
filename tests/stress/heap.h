// Blocks that know what is in them: each is filled with words made from its id when it is
// allocated, and compared when it is freed. Two blocks that share a page, a calloc that is not
// zero, a realloc that loses bytes and an alignment that is not kept all end the program with the
// seed that repeats them.
#pragma once

#include <malloc.h>
#include <unistd.h>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// The allocator under test: the program's own malloc, or the functions of a build with a prefix.
#ifdef MEMO_NAME
extern "C" {
void* MEMO_NAME(malloc)(std::size_t size) noexcept;
void* MEMO_NAME(calloc)(std::size_t count, std::size_t size) noexcept;
void* MEMO_NAME(realloc)(void* pointer, std::size_t size) noexcept;
void MEMO_NAME(free)(void* pointer) noexcept;
int MEMO_NAME(posix_memalign)(void** result, std::size_t alignment, std::size_t size) noexcept;
void* MEMO_NAME(aligned_alloc)(std::size_t alignment, std::size_t size) noexcept;
std::size_t MEMO_NAME(malloc_usable_size)(void* pointer) noexcept;
}
#define UNDER_TEST(name) ::MEMO_NAME(name)
#else
#define UNDER_TEST(name) ::name
#endif

namespace stress {

inline std::uint64_t g_seed = 0;

[[noreturn]] inline void fail(const char* what, std::uint64_t id, std::uint64_t detail) {
  dprintf(STDERR_FILENO, "seed %llu: %s (block %llx, %llx)\n",
          static_cast<unsigned long long>(g_seed), what, static_cast<unsigned long long>(id),
          static_cast<unsigned long long>(detail));
  std::abort();
}

// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // In [0, limit); limit > 0.
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  // True in `part` of `whole` cases.
  bool chance(std::uint64_t part, std::uint64_t whole) { return below(whole) < part; }

 private:
  std::uint64_t state_;
};

enum class Kind : std::uint8_t {
  kMalloc,
  kCalloc,
  kRealloc,
  kPosixMemalign,
  kAlignedAlloc,
  kCount
};

struct Block {
  unsigned char* data = nullptr;
  std::size_t size = 0;
  std::uint64_t id = 0;

  // Every eighth block is written and compared in full, the others in one word of each 256 bytes
  // and at the very end: enough to see any page that is shared, at a twentieth of the time.
  [[nodiscard]] std::size_t stride() const { return id % 8 == 0 || size < 4096 ? 8 : 256; }
  [[nodiscard]] std::uint64_t word(std::size_t at) const {
    return (id + at) * 0x9e3779b97f4a7c15ULL ^ id;
  }
};

inline void fill(const Block& block) {
  for (std::size_t at = 0; at + 8 <= block.size; at += block.stride()) {
    const std::uint64_t word = block.word(at);
    std::memcpy(block.data + at, &word, 8);
  }
  if (block.size > 0) {
    block.data[block.size - 1] = static_cast<unsigned char>(block.id);
  }
}

// Compares the first `size` bytes; the last byte only where the block was not cut.
inline void verify(const Block& block, std::size_t size) {
  for (std::size_t at = 0; at + 8 <= size; at += block.stride()) {
    std::uint64_t word = 0;
    std::memcpy(&word, block.data + at, 8);
    if (word != block.word(at) && !(at + 8 == block.size)) {
      fail("contents changed", block.id, at);
    }
  }
  if (size == block.size && size > 0 &&
      block.data[size - 1] != static_cast<unsigned char>(block.id)) {
    fail("last byte changed", block.id, size);
  }
}

inline void check_zero(const unsigned char* data, std::size_t size, std::uint64_t id) {
  if (size > 0 && (data[0] != 0 || std::memcmp(data, data + 1, size - 1) != 0)) {
    fail("calloc is not zero", id, size);
  }
}

// A filled block; `alignment` (a power of two, at least 8) counts for the aligned kinds only.
inline Block allocate(Kind kind, std::size_t size, std::size_t alignment, std::uint64_t id) {
  void* data = nullptr;
  std::size_t promised = size >= 16 ? 16 : 8;
  switch (kind) {
    case Kind::kCalloc:
      data = UNDER_TEST(calloc)(1, size);
      break;
    case Kind::kRealloc:
      data = UNDER_TEST(realloc)(nullptr, size);
      break;
    case Kind::kPosixMemalign:
      promised = alignment;
      if (UNDER_TEST(posix_memalign)(&data, alignment, size) != 0) {
        data = nullptr;
      }
      break;
    case Kind::kAlignedAlloc:
      // C asks for a multiple of the alignment, and AddressSanitizer insists.
      promised = alignment;
      size = (size + alignment - 1) / alignment * alignment;
      data = UNDER_TEST(aligned_alloc)(alignment, size);
      break;
    default:
      data = UNDER_TEST(malloc)(size);
  }
  if (data == nullptr) {
    fail("no memory", id, size);
  }
  if (reinterpret_cast<std::uintptr_t>(data) % promised != 0) {
    fail("alignment", id, promised);
  }
  const Block block{static_cast<unsigned char*>(data), size, id};
  if (kind == Kind::kCalloc) {
    check_zero(block.data, size, id);
  }
  fill(block);
  return block;
}

inline void release(const Block& block) {
  verify(block, block.size);
  if (UNDER_TEST(malloc_usable_size)(block.data) < block.size) {
    fail("usable size is less than the size", block.id, block.size);
  }
  errno = 4711;
  UNDER_TEST(free)(block.data);
  if (errno != 4711) {
    fail("free changed errno", block.id, static_cast<std::uint64_t>(errno));
  }
}

inline void resize(Block& block, std::size_t size) {
  const std::size_t kept = size < block.size ? size : block.size;
  void* data = UNDER_TEST(realloc)(block.data, size);
  if (data == nullptr) {
    fail("no memory to resize", block.id, size);
  }
  block.data = static_cast<unsigned char*>(data);
  // The word that the last byte overwrote belongs to the old end; compare what lies before it.
  verify(block, kept < block.size ? kept : block.size);
  block.size = size;
  fill(block);
}

}  // namespace stress
