// The cache of MEMOMALLOC_PLANS: which plans are fetched from it, and when, and which are saved.
// Cold.
#pragma once

#include <cstdint>

#include "src/base/guard.h"
#include "src/base/options.h"

namespace memo {

// Learns which plans lie in the cache, if there is one; reads none of them. Says on stderr why the
// folder is not used. After the engine opened.
void open_cache(const RecursionGuard& guard);

// Gives the engine the plans whose calls have the key; `look`: learns of new ones, if it is time.
// Any thread, in one of its calls: does nothing where another is at it.
void fetch_cached(const RecursionGuard& guard, std::uint64_t key, bool look);

// There are plans of this process that the cache was not given; if they could not be written, not
// each time. The background thread's.
bool cache_lacks_plans();

// Gives it those; `last`: though others could not be written just before. Says once on stderr if
// they cannot be, but not where the folder may only be read. One thread at a time.
void save_to_cache(const RecursionGuard& guard, bool last);

}  // namespace memo
