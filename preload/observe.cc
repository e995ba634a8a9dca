#include "preload/observe.h"

#include <algorithm>
#include <cstring>

#include "preload/observed_blocks.h"
#include "preload/ours.h"
#include "preload/own_memory.h"
#include "preload/process.h"
#include "src/base/keep_errno.h"

namespace memo {
namespace {

bool is_large(std::uint64_t size) {
  return size >= g_process.threshold;
}

// What the underlying allocator gives for the request.
void* plain(const Request& request) {
  const Next& next = g_process.next;
  if (request.zero) {
    return next.calloc(1, request.size);
  }
  return request.alignment > shim::kDefaultAlignment
             ? next.memalign(request.alignment, request.size)
             : next.malloc(request.size);
}

void free_stand_in(void* stand_in) {
  if (stand_in != nullptr) {
    g_process.engine.free(stand_in);
  }
}

// Calls of this thread that were not served; 0 where nobody follows it yet.
std::uint64_t calls_not_served() {
  const Lane* lane = t_state.lane;
  return lane == nullptr ? 0 : lane->counters.other_allocations.get();
}

// The engine is asked as if the block were for it to give. Nothing clears what nobody touches.
void observe_block(void* block, Request request, AskEngine& ask) {
  const os::KeepErrno keep_errno;
  request.zero = false;
  const std::uint64_t before = calls_not_served();
  void* stand_in = ask(request);
  const bool served = stand_in != nullptr && calls_not_served() == before;
  free_stand_in(add_observed_block(block, request.size, stand_in, served));
}

// Asking for a block's size is quicker than looking for it.
void* take(void* pointer) {
  const Next& next = g_process.next;
  return !next.knows_sizes() || is_large(next.malloc_usable_size(pointer))
             ? take_observed_block(pointer)
             : nullptr;
}

// `block` of `size` bytes has come from one that had `stand_in`, by realloc.
void move_stand_in(void* stand_in, void* block, std::size_t size, AskEngine& ask) {
  Engine& engine = g_process.engine;
  if (!is_large(size)) {
    free_stand_in(stand_in);
  } else if (stand_in == nullptr) {
    engine.note_foreign_growth(size);
  } else if (engine.resize(stand_in, size)) {
    free_stand_in(add_observed_block(block, size, stand_in, false));
  } else {
    observe_block(block, {.size = size, .op = Op::k_realloc}, ask);
    free_stand_in(stand_in);
  }
}

}  // namespace

bool start_observing() {
  return open_observed_blocks();
}

void* observe_own(std::size_t size) {
  return t_state.inside != 0 ? own_memory::allocate(size) : nullptr;
}

void* observe_large(const Request& request, AskEngine& ask) {
  if (t_state.inside != 0) {
    return nullptr;
  }
  void* block = plain(request);
  if (block != nullptr) {
    observe_block(block, request, ask);
  }
  return block;
}

std::size_t observe_size(void* pointer) {
  return own_memory::owns(pointer) ? own_memory::size(pointer)
                                   : g_process.next.malloc_usable_size(pointer);
}

void observe_free(void* pointer) {
  if (own_memory::owns(pointer)) {
    own_memory::free(pointer);
    return;
  }
  free_stand_in(take(pointer));
  g_process.next.free(pointer);
}

void* observe_realloc(void* pointer, std::size_t size, AskEngine& ask) {
  const std::size_t before = observe_size(pointer);
  if (own_memory::owns(pointer)) {
    void* moved = g_process.next.malloc(size);
    if (moved != nullptr) {
      std::memcpy(moved, pointer, std::min(before, size));
      own_memory::free(pointer);
    }
    return moved;
  }
  void* stand_in = take(pointer);
  void* block = g_process.next.realloc(pointer, size);
  const os::KeepErrno keep_errno;
  if (block != nullptr) {
    move_stand_in(stand_in, block, size, ask);
  } else if (size == 0) {
    free_stand_in(stand_in);
  } else if (stand_in != nullptr) {  // refused: the block stays where it is
    free_stand_in(add_observed_block(pointer, before, stand_in, false));
  }
  return block;
}

}  // namespace memo
