// On a machine of several memory nodes: looks where the threads of the process run that write slabs
// and read weights, and brings the memory there (MEMOMALLOC_NUMA). The threads' own calls do nothing
// but note where an iteration ended. Cold; one thread of the library's at a time.
#pragma once

#include "src/base/guard.h"
#include "src/io/node_maps.h"

namespace memo {

// One look, and what follows from it. Called each second or so by a thread that may be bound to a node.
void bring_to_nodes(const RecursionGuard&);

// True if there are several nodes that the process may use, as far as is known.
bool nodes_matter();

// Where the memory lay a few seconds ago; nullptr: it has one node, or nobody has looked yet. Any
// thread; it holds until the next but one count.
const NodeFigures* node_figures();

// In a forked child.
void forget_nodes();

}  // namespace memo
