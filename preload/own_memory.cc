#include "preload/own_memory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "preload/process.h"
#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/lock.h"
#include "src/base/os.h"

namespace memo {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

// The first page of a chunk.
struct state::OwnMemory::Chunk {
  Chunk* next = nullptr;
  std::uint64_t pages = 0;                    // this one included
  std::uint64_t used[(kPage - 16) / 8] = {};  // a bit for each page
};

namespace own_memory {
namespace {

using Chunk = state::OwnMemory::Chunk;
static_assert(sizeof(Chunk) == kPage);
constexpr std::uint64_t kMaxPages = sizeof(Chunk::used) * 8;

constexpr std::uint64_t kHeader = 64;          // bytes before a block, which hold its pages
constexpr std::uint64_t kChunk = 2ULL << 20U;  // bytes, if nobody asks for more

bool is_used(const Chunk& chunk, std::uint64_t page) {
  return (chunk.used[page / 64] >> (page % 64) & 1U) != 0;
}

void mark(Chunk& chunk, std::uint64_t first, std::uint64_t count, bool used) {
  for (std::uint64_t page = first; page < first + count; ++page) {
    const std::uint64_t bit = 1ULL << (page % 64);
    chunk.used[page / 64] = used ? chunk.used[page / 64] | bit : chunk.used[page / 64] & ~bit;
  }
}

// The first of `count` free pages in a row; 0: there are none.
std::uint64_t find(const Chunk& chunk, std::uint64_t count) {
  std::uint64_t run = 0;
  for (std::uint64_t page = 1; page < chunk.pages; ++page) {
    run = is_used(chunk, page) ? 0 : run + 1;
    if (run == count) {
      return page + 1 - count;
    }
  }
  return 0;
}

Chunk* add_chunk(std::uint64_t count) {
  const std::uint64_t pages = std::max(count + 1, kChunk / kPage);
  void* memory = pages <= kMaxPages ? os::map(pages * kPage) : nullptr;
  if (memory == nullptr) {
    return nullptr;
  }
  auto* chunk = new (memory) Chunk;
  chunk->pages = pages;
  chunk->next = g_process.own_memory.chunks.load(std::memory_order_relaxed);
  g_process.own_memory.chunks.store(chunk, std::memory_order_release);
  return chunk;
}

Chunk* chunk_of(const void* pointer) {
  const auto at = reinterpret_cast<std::uint64_t>(pointer);
  Chunk* chunk = g_process.own_memory.chunks.load(std::memory_order_acquire);
  while (chunk != nullptr && at - reinterpret_cast<std::uint64_t>(chunk) >= chunk->pages * kPage) {
    chunk = chunk->next;
  }
  return chunk;
}

// The block's header: how many pages it has.
std::uint64_t& pages_of(const void* block) {
  return *reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uint64_t>(block) - kHeader);
}

}  // namespace

void* allocate(std::size_t bytes) {
  const WaitLock held(g_process.own_memory.lock);
  if (!held || bytes > kMaxPages * kPage - kHeader) {
    return nullptr;
  }
  const std::uint64_t count = round_up(bytes + kHeader, kPage) / kPage;
  Chunk* chunk = g_process.own_memory.chunks.load(std::memory_order_relaxed);
  std::uint64_t first = 0;
  while (chunk != nullptr && (first = find(*chunk, count)) == 0) {
    chunk = chunk->next;
  }
  if (chunk == nullptr) {
    chunk = add_chunk(count);
    first = 1;
  }
  if (chunk == nullptr) {
    return nullptr;
  }
  mark(*chunk, first, count, true);
  char* block = reinterpret_cast<char*>(chunk) + first * kPage + kHeader;
  pages_of(block) = count;
  return block;
}

bool owns(const void* pointer) {
  return chunk_of(pointer) != nullptr;
}

std::size_t size(const void* block) {
  MEMO_DCHECK(owns(block) && pages_of(block) != 0);
  return pages_of(block) * kPage - kHeader;
}

// Where others have the lock for long, the block stays.
void free(void* block) {
  const WaitLock held(g_process.own_memory.lock);
  if (held) {
    Chunk* chunk = chunk_of(block);
    MEMO_DCHECK(chunk != nullptr && pages_of(block) != 0);
    const auto start =
        reinterpret_cast<std::uint64_t>(block) - reinterpret_cast<std::uint64_t>(chunk);
    mark(*chunk, start / kPage, pages_of(block), false);
  }
}

}  // namespace own_memory
}  // namespace memo
