#include "src/serve/arena.h"

#include <algorithm>

#include "src/base/bits.h"
#include "src/base/os.h"

namespace memo {
namespace {

constexpr std::uint64_t kHugePage = os::kHugePage / kGranule;  // in granules
// A block aligned to a cache line is a tensor of a framework, and will be written whole; what plain
// malloc gives may be used in part only. Source: of ViT-B/16's blocks of 4 to 9 MB, those of the
// matrix library's work space (malloc) were 40 % resident, tensors (posix_memalign, 64) 100 %.
constexpr std::uint64_t kTensorAlignment = 64;
// Huge pages begin when this much is alive: the last one, half empty, must not count.
constexpr std::uint64_t kWorthHugePages = (32ULL << 20) / kGranule;
// Ranges that may be taken out of the advice one by one. Each can split a mapping of the process.
constexpr std::uint32_t kMostExceptions = 512;
// Blocks and gaps that a walk looks at: more than networks have weights and blocks, and 10 us.
// Beyond, walks go on where the last one stopped, so that no call of a program with 100,000 blocks
// takes long.
constexpr std::uint64_t kMostSteps = 4096;

std::uint64_t granules_for(std::uint64_t bytes) {
  return (bytes + kGranule - 1) / kGranule;
}

}  // namespace

// A free place for `count` granules below the top: near the lowest free granule; then where the
// last far walk found one, or else stopped; then in what was taken from the top last.
PageMap::Run Arena::find(std::uint64_t count, std::uint64_t step) {
  PageMap::Walk near{lowest_free_.load(std::memory_order_acquire), top_, kMostSteps};
  PageMap::Run run = space_->pages.best_fit(near, count, step);
  if (run.count != 0 || near.at >= top_) {
    return run;
  }
  PageMap::Walk far{std::max(near.at, far_), top_, kMostSteps};
  run = space_->pages.best_fit(far, count, step);
  if (run.count == 0) {
    far_ = far.at < top_ ? far.at : 0;
    PageMap::Walk last{newest_, top_, kMostSteps};
    run = space_->pages.best_fit(last, count, step);
  }
  return run;
}

Arena::Block Arena::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t count = granules_for(bytes);
  const std::uint64_t step = std::max<std::uint64_t>(alignment / kGranule, 1);
  if (count >= space_->bytes() / kGranule) {
    return {};
  }
  PageMap& pages = space_->pages;
  PageMap::Run run = find(count, step);
  if (run.count == 0) {
    run = {round_up(top_, step), count};
    if (!space_->commit((run.first + count) * kGranule)) {
      return {};
    }
  }
  const PageMap::Claim claim = pages.claim(run.first, count);
  if (!claim.granted) {
    return {};
  }
  account(claim, count);
  if (run.first + count > top_) {
    if (alignment >= kTensorAlignment) {
      advise(run.first + count);
    }
    newest_ = run.first;
    top_ = run.first + count;
  }
  if (run.first == lowest_free_.load(std::memory_order_relaxed)) {
    std::uint64_t expected = run.first;  // another thread may have freed something lower meanwhile
    lowest_free_.compare_exchange_strong(expected, run.first + count, std::memory_order_acq_rel);
  }
  return {space_->address(run.first), claim.dirty == 0, claim.dirty == count};
}

// Asks for huge pages from the first one that nobody has used yet up to `end`, a block's.
void Arena::advise(std::uint64_t end) {
  if (!huge_pages_ || live_.load(std::memory_order_relaxed) < kWorthHugePages) {
    return;
  }
  const std::uint64_t from = round_up(top_, kHugePage);
  const std::uint64_t to = round_up(end, kHugePage);
  if (from < to && os::advise_huge(space_->address(from), (to - from) * kGranule, true)) {
    advised_.store(to, std::memory_order_relaxed);
  }
}

// Gives memory back. What is used again there comes in small pages: a huge one would hold more than
// what is in use. Any thread.
bool Arena::give_back(std::uint64_t first, std::uint64_t count) {
  if (!os::purge(space_->address(first), count * kGranule)) {
    return false;
  }
  const std::uint64_t advised = advised_.load(std::memory_order_relaxed);
  std::uint64_t from = round_down(first, kHugePage);
  std::uint64_t to = std::min(round_up(first + count, kHugePage), advised);
  if (from >= to) {
    return true;
  }
  if (exceptions_.fetch_add(1, std::memory_order_relaxed) >= kMostExceptions) {
    advised_.store(0, std::memory_order_relaxed);
    exceptions_.store(0, std::memory_order_relaxed);
    from = 0;
    to = advised;
  }
  os::advise_huge(space_->address(from), (to - from) * kGranule, false);
  return true;
}

// Enters a claim into the books, and gives old memory back where the total would pass the peak.
bool Arena::account(const PageMap::Claim& claim, std::uint64_t count) {
  const std::uint64_t live = live_.fetch_add(count, std::memory_order_relaxed) + count;
  const std::uint64_t dirty =
      dirty_.fetch_sub(claim.dirty, std::memory_order_relaxed) - claim.dirty;
  window_least_ = std::min(window_least_, live - count);
  window_peak_ = std::max(window_peak_, live);
  peak_ = std::max(peak_.load(std::memory_order_relaxed), live);
  const std::uint64_t most = most_kept();
  return live + dirty <= most || purge_some(live + dirty - most) > 0;
}

// As purge, but no further than a walk near the lowest free granule and one where the last stopped.
std::uint64_t Arena::purge_some(std::uint64_t granules) {
  PageMap::Walk near{lowest_free_.load(std::memory_order_acquire), top_, kMostSteps};
  const std::uint64_t done = purge(near, granules);
  if (done >= granules || near.at >= top_) {
    return done;
  }
  PageMap::Walk far{std::max(near.at, far_purge_), top_, kMostSteps};
  const std::uint64_t more = purge(far, granules - done);
  far_purge_ = far.at < top_ ? far.at : 0;
  return done + more;
}

std::uint64_t Arena::most_kept() const {
  const std::uint64_t peak = peak_.load(std::memory_order_relaxed);
  const std::uint64_t divisor = slack_divisor_.load(std::memory_order_relaxed);
  return peak + (divisor == 0 || window_least_ >= peak ? 0 : (peak - window_least_) / divisor);
}

bool Arena::resize(void* start, std::uint64_t bytes) {
  PageMap& pages = space_->pages;
  const std::uint64_t first = space_->granule_of(start);
  const std::uint64_t now = pages.length(first);
  const std::uint64_t count = granules_for(bytes);
  if (count == now) {
    return true;
  }
  if (count < now) {
    const std::uint64_t given = pages.shrink(first, std::max<std::uint64_t>(count, 1));
    live_.fetch_sub(given, std::memory_order_relaxed);
    dirty_.fetch_add(given, std::memory_order_relaxed);
    std::uint64_t lowest = lowest_free_.load(std::memory_order_relaxed);
    while (first + count < lowest &&
           !lowest_free_.compare_exchange_weak(lowest, first + count, std::memory_order_acq_rel)) {
    }
    return true;
  }
  if (first + count >= space_->bytes() / kGranule || !space_->commit((first + count) * kGranule)) {
    return false;
  }
  const PageMap::Claim claim = pages.extend(first, count);
  if (!claim.granted) {
    return false;
  }
  top_ = std::max(top_, first + count);
  account(claim, count - now);
  return true;
}

bool Arena::free(void* start, bool at_once) {
  const std::uint64_t first = space_->granule_of(start);
  // While the block is still in use nobody else can have its granules, so the memory goes first.
  const bool clean = at_once && give_back(first, space_->pages.length(first));
  const std::uint64_t count = space_->pages.release(first, clean);
  if (count == 0) {
    return false;
  }
  dirty_.fetch_add(clean ? 0 : count, std::memory_order_relaxed);
  live_.fetch_sub(count, std::memory_order_relaxed);
  std::uint64_t lowest = lowest_free_.load(std::memory_order_relaxed);
  while (first < lowest &&
         !lowest_free_.compare_exchange_weak(lowest, first, std::memory_order_acq_rel)) {
  }
  return true;
}

// Gives dirty granules on the walk back; their number.
std::uint64_t Arena::purge(PageMap::Walk& walk, std::uint64_t granules) {
  std::uint64_t done = 0;
  while (done < granules) {
    const PageMap::Run run = space_->pages.next_dirty(walk, granules - done);
    if (run.count == 0 || !give_back(run.first, run.count)) {
      break;
    }
    space_->pages.mark_clean(run.first, run.count);
    done += run.count;
  }
  dirty_.fetch_sub(done, std::memory_order_relaxed);
  purged_.fetch_add(done, std::memory_order_relaxed);
  return done;
}

std::uint64_t Arena::trim() {
  window_peak_ = window_least_ = live_.load(std::memory_order_relaxed);
  peak_ = window_peak_;
  PageMap::Walk whole{lowest_free_.load(std::memory_order_acquire), top_};
  return purge(whole, UINT64_MAX) * kGranule;
}

std::uint64_t Arena::age() {
  const std::uint64_t live = live_.load(std::memory_order_relaxed);
  peak_ = std::max(window_peak_, live);
  const std::uint64_t most = most_kept();
  window_peak_ = window_least_ = live;
  const std::uint64_t dirty = dirty_.load(std::memory_order_relaxed);
  PageMap::Walk whole{lowest_free_.load(std::memory_order_acquire), top_};
  return live + dirty > most ? purge(whole, live + dirty - most) * kGranule : 0;
}

}  // namespace memo
