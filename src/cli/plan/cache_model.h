// How much of a plan's memory a cache would have to fetch: the model behind `memomalloc plan --cache`. Cold.
//
// The cache is fully associative and forgets what was used longest ago. Each buffer is written whole where it is born and
// read whole where it is last alive, and so again at both ends of a gap. The problem is one iteration of a loop; a first
// pass fills the cache, the second is counted. Real caches have sets, lines and prefetching, and programs touch some
// buffers more often: the model ranks plans of one problem, it does not tell seconds.
// Source: stack distances, Mattson et al., Evaluation Techniques for Storage Hierarchies, 1970.
#pragma once

#include "dsa/problem.h"

namespace memo::cli {

struct CacheUse {
  dsa::Bytes touched = 0;  // in one pass
  dsa::Bytes missed = 0;   // of these, not in the cache
};

// For a valid plan of the problem, and a cache of `capacity` > 0 bytes. O(n log n) for n buffers and gaps, times 16 at
// most for those of more than a 16th of the cache.
CacheUse model_cache(const dsa::Problem& problem, const dsa::Plan& plan, dsa::Bytes capacity);

}  // namespace memo::cli
