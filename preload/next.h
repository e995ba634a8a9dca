// The next allocator: whatever follows this library in the link chain. Hot.
#pragma once

#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>
#include <cstddef>

namespace memo {

// The functions that hooks.def names, found by dlsym(RTLD_NEXT); of an Optional one that is
// missing, nullptr.
struct Next {
#define MEMO_NEXT_Required(name) decltype(&::name) name = nullptr;
#define MEMO_NEXT_Optional(name) MEMO_NEXT_Required(name)
#define MEMO_NEXT_Own(name)
#define HOOK(name, kind) MEMO_NEXT_##kind(name)
#include "preload/hooks.def"
#undef HOOK
#undef MEMO_NEXT_Required
#undef MEMO_NEXT_Optional
#undef MEMO_NEXT_Own
};

// Fills all of `next`, the table's first row last, so that a set first row means a whole table.
// Ends the process with one line if a required function is missing. dlsym may allocate: see
// bootstrap.h.
void find_next(Next& next);

}  // namespace memo
