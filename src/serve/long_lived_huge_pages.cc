#include "src/serve/long_lived_huge_pages.h"

#include "src/base/bits.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// The program has changed what some pages are.
bool is_altered(const Space& space, Granules first) {
  bool altered = space.pages.altered(space.pages.block_at(first).first);
  space.pages.states().each(first, kHugePage, [&](std::uint64_t bits) {
    altered = altered || (bits & PageStates::kEveryByte * PageStates::kAltered) != 0;
  });
  return altered;
}

bool replace(std::uint8_t* look, std::uint8_t expected, std::uint8_t value) {
  return __atomic_compare_exchange_n(look, &expected, value, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

}  // namespace

void LongLived::look(const Space& space) {
  std::uint8_t* looks = looks_.load(std::memory_order_relaxed);
  if (looks == nullptr) {
    looks = os::can_collapse() ? static_cast<std::uint8_t*>(os::map(space.bytes() / os::kHugePage))
                               : nullptr;
    looks_.store(looks, std::memory_order_release);
  }
  const std::uint64_t count = looks == nullptr ? 0 : space.committed_bytes() / os::kHugePage;
  std::uint32_t made = 0;
  for (std::uint64_t unit = 0; unit < count && made < tuning::kCollapsedAtOnce; ++unit) {
    const std::uint8_t before = __atomic_load_n(looks + unit, __ATOMIC_RELAXED);
    if (before == kDone) {
      continue;
    }
    const Granules first = granules_in(unit * os::kHugePage);
    const std::uint8_t next = before == kDone - 1 ? kDone / 2 : before + 1;
    const std::uint8_t now = space.pages.states().all_used(first, kHugePage) ? next : 0;
    char* const start = space.address(first);
    // Not over the note that a block has been taken there meanwhile. What is shared with children
    // may be so for good, and is asked for more and more seldom.
    if (!replace(looks + unit, before, now) || now < tuning::kLongLivedLooks ||
        !(now == tuning::kLongLivedLooks || is_power_of_two(now)) || !os::is_own(start) ||
        is_altered(space, first) || !replace(looks + unit, now, kDone)) {
      continue;
    }
    os::collapse(start);
    ++made;
    // Its memory may have been given back meanwhile, and a new block may be there, which is not
    // known to be written.
    if (!space.pages.states().all_used(first, kHugePage)) {
      __atomic_store_n(looks + unit, std::uint8_t{0}, __ATOMIC_RELAXED);
    }
    if (!os::rest(tuning::kCollapseRest)) {
      return;
    }
  }
}

}  // namespace memo
