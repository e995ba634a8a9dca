// The next allocator: whatever follows this library in the link chain. Hot.
#pragma once

#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>

#include "preload/peer_functions.h"

namespace memo {

// The functions that hooks.def names, found by dlsym(RTLD_NEXT); of an Optional or Peer one that is
// missing, nullptr.
struct Next {
#define MEMO_NEXT_Required(name) decltype(&::name) name = nullptr;
#define MEMO_NEXT_Optional(name) MEMO_NEXT_Required(name)
#define MEMO_NEXT_Peer(name) MEMO_NEXT_Required(name)
#define MEMO_NEXT_Own(name)
#define HOOK(name, kind) MEMO_NEXT_##kind(name)
#include "preload/hooks.def"
#undef MEMO_NEXT_Required
#undef MEMO_NEXT_Optional
#undef MEMO_NEXT_Peer
#undef MEMO_NEXT_Own

  bool peers_known = false;  // the Peer functions were looked for

  // The addresses of the object that the next malloc is in.
  std::uint64_t object_start = 0;
  std::uint64_t object_end = 0;
  [[nodiscard]] bool contains(const void* code) const {
    const auto at = reinterpret_cast<std::uint64_t>(code);
    return at >= object_start && at < object_end;
  }
};

// Fills all of `next`, the table's first row last, so that a set first row means a whole table.
// Ends the process with one line if a required function is missing. dlsym may allocate: see
// bootstrap.h.
void find_next(Next& next);

// Looks for the Peer functions of whatever follows in the link chain, unless that is done: at start
// where the next allocator is not the C library's, else when one of ours is called. Then another
// library may have a function of that name.
void find_peers(Next& next);

// Takes the Peer functions that the next allocator does not have out of this library's symbol
// table: a program that looks whether it runs on jemalloc asks for them. Once, at start.
void hide_missing_peers(const Next& next);

}  // namespace memo
