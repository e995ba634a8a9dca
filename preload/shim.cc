#include "preload/shim.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "preload/observe.h"
#include "preload/ours.h"
#include "preload/process.h"
#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/engine/misuse.h"

namespace memo::shim {
namespace {

// True once the underlying allocator is known. False inside the look-up itself, when bootstrap has
// to serve.
bool have_next() {
  Process& process = g_process;
  if (__atomic_load_n(&process.next.malloc, __ATOMIC_ACQUIRE) != nullptr) [[likely]] {
    return true;
  }
  if (process.looking) {
    return false;
  }
  process.looking = true;
  find_next(process.next);
  process.looking = false;
  return true;
}

void* ask_engine(const Request& request) {
  Process& process = g_process;
  if (!process.engine.lanes.opened() && is_early(request.size)) [[unlikely]] {
    return process.engine.pass_on(request.size, &Counters::fallback_early);
  }
  const int saved = errno;
  void* block = process.engine.allocate(request);
  errno = saved;
  // The first call that returns a block below the fast path's border moves the border: the thread
  // that opens the region may be slower than another that already has a block of it.
  if (block != nullptr && reinterpret_cast<std::uint64_t>(block) <
                              __atomic_load_n(&g_process.lowest, __ATOMIC_ACQUIRE)) [[unlikely]] {
    open_fast_paths();
    heed_limit();
  }
  return block;
}

// A block that the program may have: the engine's or, where nothing is served, the next
// allocator's.
void* large(std::uint64_t size, std::uint64_t alignment, Op op, bool zero) {
  return g_process.observes ? observe_large({size, alignment, op, zero}, ask_engine)
                            : ask_engine({size, alignment, op, zero});
}

// What the underlying allocator answers to a request for `bytes`; where the system refuses it
// memory, once more after slabs and pool have given up what they do not use.
template <typename Call>
void* ask_next(std::uint64_t bytes, Call&& call) {
  void* block = call();
  if (block == nullptr && bytes != 0 && errno == ENOMEM &&
      g_process.engine.give_back.relieve(bytes)) [[unlikely]] {
    block = call();
  }
  return block;
}

void* malloc_next(std::size_t size) {
  void* own = g_process.observes ? observe_own(size) : nullptr;
  return own != nullptr ? own : ask_next(size, [=] { return g_process.next.malloc(size); });
}

void* zeroed_next(std::size_t size) {
  return ask_next(size, [=] { return g_process.next.calloc(1, size); });
}

void* memalign_next(std::size_t alignment, std::size_t size) {
  return ask_next(size, [=] { return g_process.next.memalign(alignment, size); });
}

// valloc and pvalloc are built from memalign, because not every allocator has them, and another's
// would then be found: its blocks must not come to the underlying allocator's free.
void* page_aligned(std::size_t size, Op op) {
  const std::uint64_t page = os::page_size();
  if (!have_next()) {
    return g_process.bootstrap.allocate(size, page);
  }
  void* block = large_aligned(page, size, op);
  return block != nullptr ? block : memalign_next(page, size);
}

[[gnu::cold, gnu::noinline, noreturn]] void misused(const char* function, const void* pointer) {
  report_pointer(g_process.engine, function, pointer);
}

void free_owned(void* pointer, const char* function, bool bare = false) {
  if (!g_process.engine.free(pointer, bare)) [[unlikely]] {
    misused(function, pointer);
  }
}

// Moves a block of the engine to one of `size` bytes elsewhere.
void* move_owned(void* pointer, std::size_t now, std::size_t size) {
  void* moved = is_large(size) ? large(size, kDefaultAlignment, Op::k_realloc, false) : nullptr;
  const std::size_t bytes = now < size ? now : size;
  // Other allocators write all of a zeroed block.
  const bool zeros = moved == nullptr && bytes >= tuning::kMinLooked && g_process.next.of_libc;
  if (moved == nullptr) {
    moved = zeros ? zeroed_next(size) : malloc_next(size);
  }
  if (moved != nullptr) {
    const bool bare = g_process.engine.carry(pointer, moved, bytes, zeros);
    free_owned(pointer, "realloc", bare);
  }
  return moved;
}

// What the underlying allocator makes of a block that is to have no bytes: some give one of the
// least size.
void* realloc_to_nothing() {
  void* small = g_process.next.malloc(1);
  return small != nullptr ? g_process.next.realloc(small, 0) : nullptr;
}

void* realloc_owned(void* pointer, std::size_t size) {
  Engine& engine = g_process.engine;
  if (size == 0) {
    free_owned(pointer, "realloc");
    return realloc_to_nothing();
  }
  if (size > kMaxBytes) {
    errno = ENOMEM;
    return nullptr;
  }
  const std::size_t now = engine.size(pointer);
  if (now == 0) {
    misused("realloc", pointer);
  }
  const int saved = errno;
  if (is_large(size) && engine.resize(pointer, size)) {
    errno = saved;
    return pointer;
  }
  void* moved = move_owned(pointer, now, size);
  if (moved == nullptr && size <= now) {
    engine.note_left_larger();
    errno = saved;
    return pointer;  // too large for its size, but never lost
  }
  return moved;
}

void* realloc_bootstrap(void* pointer, std::size_t size) {
  void* moved = have_next() ? g_process.next.malloc(size) : g_process.bootstrap.allocate(size);
  if (moved != nullptr) {
    const std::size_t now = Bootstrap::size(pointer);
    std::memcpy(moved, pointer, now < size ? now : size);
  }
  return moved;
}

}  // namespace

void* large_aligned(std::uint64_t alignment, std::uint64_t size, Op op) {
  if (!is_large(size) || !is_power_of_two(alignment)) {
    return nullptr;
  }
  return large(size, alignment < kDefaultAlignment ? kDefaultAlignment : alignment, op, false);
}

void find_next_allocator() {
  have_next();
}

void heed_limit() {
  if (__atomic_load_n(&g_process.fast_below, __ATOMIC_RELAXED) != 0 && os::data_limited()) {
    __atomic_store_n(&g_process.fast_below, 0, __ATOMIC_RELAXED);
  }
}

void open_fast_paths() {
  Process& process = g_process;
  // An observer sees each free.
  const std::uint64_t region = process.observes ? 0 : process.engine.lanes.region.base();
  const std::uint64_t bootstrap = process.bootstrap.lowest();
  __atomic_store_n(&process.lowest, region < bootstrap ? region : bootstrap, __ATOMIC_RELEASE);
}

void* malloc(std::size_t size) {
  if (!have_next()) {
    return g_process.bootstrap.allocate(size);
  }
  void* block = is_large(size) ? large(size, kDefaultAlignment, Op::k_malloc, false) : nullptr;
  return block != nullptr ? block : malloc_next(size);
}

void free(void* pointer) {
  if (g_process.engine.owns(pointer)) {
    free_owned(pointer, "free");
  } else if (pointer != nullptr && !g_process.bootstrap.owns(pointer) && have_next()) {
    g_process.observes ? observe_free(pointer) : g_process.next.free(pointer);
  }
}

void* calloc(std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(count, size, &bytes);
  if (!have_next()) {
    return overflow ? nullptr : g_process.bootstrap.allocate(bytes);
  }
  void* block =
      !overflow && is_large(bytes) ? large(bytes, kDefaultAlignment, Op::k_calloc, true) : nullptr;
  return block != nullptr
             ? block
             : ask_next(overflow ? 0 : bytes, [=] { return g_process.next.calloc(count, size); });
}

void* realloc(void* pointer, std::size_t size) {
  // The next malloc's object may have no realloc of its own: realloc(nullptr) of another would give
  // blocks that its free does not know.
  if (pointer == nullptr && (is_large(size) || g_process.observes || !have_next())) {
    return malloc(size);
  }
  if (g_process.bootstrap.owns(pointer)) {
    return realloc_bootstrap(pointer, size);
  }
  if (g_process.engine.owns(pointer)) {
    return realloc_owned(pointer, size);
  }
  if (!have_next()) {
    return nullptr;
  }
  if (g_process.observes) {
    return observe_realloc(pointer, size, ask_engine);
  }
  const std::size_t now = is_large(size) && g_process.next.knows_sizes()
                              ? g_process.next.malloc_usable_size(pointer)
                              : 0;
  if (is_large(size) && is_step(now, size)) {
    void* block = ask_engine({.size = size});
    return block != nullptr ? move_next(pointer, block)
                            : ask_next(size, [=] { return g_process.next.realloc(pointer, size); });
  }
  void* block = ask_next(size, [=] { return g_process.next.realloc(pointer, size); });
  if (block != nullptr && is_large(size) && size > now) {
    g_process.engine.note_foreign_growth(size);
  }
  return block;
}

int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  if (!have_next()) {
    *result = g_process.bootstrap.allocate(size, alignment);
    return *result == nullptr ? ENOMEM : 0;
  }
  void* block = alignment % sizeof(void*) == 0
                    ? large_aligned(alignment, size, Op::k_posix_memalign)
                    : nullptr;
  if (block == nullptr) {
    int error = g_process.next.posix_memalign(result, alignment, size);
    if (error == ENOMEM && g_process.engine.give_back.relieve(size)) [[unlikely]] {
      error = g_process.next.posix_memalign(result, alignment, size);
    }
    return error;
  }
  *result = block;
  return 0;
}

// jemalloc's operator new for over-aligned objects comes here, and its operator delete goes to
// jemalloc's own insides: what the underlying allocator asks for by itself must be its own.
void* aligned_alloc(std::size_t alignment, std::size_t size, const void* caller) {
  if (!have_next()) {
    return g_process.bootstrap.allocate(size, alignment);
  }
  void* block = g_process.next.operators.contains(caller)
                    ? nullptr
                    : large_aligned(alignment, size, Op::k_aligned_alloc);
  return block != nullptr
             ? block
             : ask_next(size, [=] { return g_process.next.aligned_alloc(alignment, size); });
}

void* memalign(std::size_t alignment, std::size_t size) {
  if (!have_next()) {
    return g_process.bootstrap.allocate(size, alignment);
  }
  void* block = large_aligned(alignment, size, Op::k_memalign);
  return block != nullptr ? block : memalign_next(alignment, size);
}

void* valloc(std::size_t size) {
  return page_aligned(size, Op::k_valloc);
}

void* pvalloc(std::size_t size) {
  const std::uint64_t page = os::page_size();
  if (size > kMaxBytes - page) {
    errno = ENOMEM;
    return nullptr;
  }
  return page_aligned(round_up(size, page), Op::k_pvalloc);
}

std::size_t malloc_usable_size(void* pointer) {
  if (pointer == nullptr) {
    return 0;
  }
  if (g_process.bootstrap.owns(pointer)) {
    return Bootstrap::size(pointer);
  }
  if (g_process.engine.owns(pointer)) {
    const std::size_t size = g_process.engine.size(pointer);
    if (size == 0) [[unlikely]] {
      misused("malloc_usable_size", pointer);
    }
    return size;
  }
  if (g_process.observes) {
    return observe_size(pointer);
  }
  return have_next() ? g_process.next.malloc_usable_size(pointer) : 0;
}

}  // namespace memo::shim
