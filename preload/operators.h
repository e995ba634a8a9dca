// C++'s operators new and delete, where the underlying allocator has its own: those do not go through malloc, so that large objects
// would never be seen. Hot.
//
// An entry point is one jump to what stands here: at first a function that looks where it leads; then ours, which serves large
// objects and passes everything else on to the allocator's operator; or, where the operators are the C++ library's, that one,
// which calls malloc. Who has no memory calls the new_handler and throws is always the next operator: the C++ library of this
// shared object is not the program's.
#pragma once

#include "preload/next.h"

namespace memo {

struct Operators {
#define MEMO_OPERATOR_Required(name)
#define MEMO_OPERATOR_Optional(name)
#define MEMO_OPERATOR_Peer(name)
#define MEMO_OPERATOR_Own(name)
#define MEMO_OPERATOR_Scoped(name)
#define MEMO_OPERATOR_Operator(name) decltype(&::name) name;
#define HOOK(name, kind) MEMO_OPERATOR_##kind(name)
#include "preload/hooks.def"
#undef MEMO_OPERATOR_Operator
};

[[gnu::visibility("hidden")]] extern constinit Operators g_operators;

// Once, at start, when the underlying allocator is known: where it has operators of its own, each leads to ours.
void open_operators();

}  // namespace memo
