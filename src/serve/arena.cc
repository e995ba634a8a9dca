#include "src/serve/arena.h"

#include <algorithm>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

constexpr std::uint64_t kHugePage = os::kHugePage / kGranule;  // in granules

}  // namespace

void Arena::open(Space* space) {
  space_ = space;
  space_->know_free_chunks();
}

PageMap::Run Arena::look(PageMap::Walk& walk, std::uint64_t count, std::uint64_t step) {
  const std::uint64_t before = walk.steps;
  const PageMap::Run run = space_->pages.best_fit(walk, count, step);
  steps_ += before - walk.steps;
  return run;
}

// A free place for `count` granules below the top: near the lowest free granule; then where the
// last far walk found one, or else stopped; then in what was taken from the top last.
PageMap::Run Arena::find(std::uint64_t count, std::uint64_t step) {
  const std::uint64_t most = tuning::kMaxWalkSteps + tuning::kWalkStepsPerWord * (count / 8 + 1);
  PageMap::Walk near{lowest_free_.load(std::memory_order_acquire), top_, most};
  PageMap::Run run = look(near, count, step);
  if (run.count != 0 || near.at >= top_) {
    return run;
  }
  PageMap::Walk far{std::max(near.at, far_), top_, most};
  run = look(far, count, step);
  if (run.count == 0) {
    far_ = far.at < top_ ? far.at : 0;
    PageMap::Walk last{newest_, top_, most};
    run = look(last, count, step);
  }
  return run;
}

Arena::Block Arena::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t count = granules_of(bytes);
  const std::uint64_t step = std::max<std::uint64_t>(alignment / kGranule, 1);
  if (count >= space_->bytes() / kGranule) {
    return {};
  }
  PageMap& pages = space_->pages;
  PageMap::Run run = find(count, step);
  PageMap::Claim claim;
  if (run.count != 0) {
    claim = pages.claim(run.first, count);
    pages.note_claimed(run.first, count);
  }
  if (!claim.granted) {
    // What is free below the top is part of it: a block that grows by being copied moves on there.
    run = {round_up(pages.tail(PageMap::Tail::kFree, top_ - std::min(top_, count), top_), step),
           count};
    if (!space_->commit((run.first + count) * kGranule)) {
      return {};
    }
    claim = pages.claim(run.first, count);
    if (!claim.granted) {
      return {};
    }
    pages.note_claimed(run.first, count);
  }
  account(claim, count);
  if (run.first + count > top_) {
    if (alignment >= tuning::kTensorAlignment) {
      advise(run.first + count);
    }
    newest_ = run.first;
    top_ = run.first + count;
  }
  if (run.first == lowest_free_.load(std::memory_order_relaxed)) {
    std::uint64_t expected = run.first;  // another thread may have freed something lower meanwhile
    lowest_free_.compare_exchange_strong(expected, run.first + count, std::memory_order_acq_rel);
  }
  return {.start = space_->address(run.first),
          .zero = claim.dirty == 0,
          .resident = claim.dirty == count,
          .lacking = (count - claim.dirty) * kGranule};
}

// Asks for huge pages from the first one that nobody has used yet up to `end`, a block's.
void Arena::advise(std::uint64_t end) {
  if (!huge_pages_ || live_.load(std::memory_order_relaxed) < tuning::kWorthHugePages / kGranule) {
    return;
  }
  const std::uint64_t from = round_up(top_, kHugePage);
  const std::uint64_t to = round_up(end, kHugePage);
  if (from < to && os::advise_huge(space_->address(from), (to - from) * kGranule, true)) {
    advised_.store(to, std::memory_order_relaxed);
  }
}

// What is used again in memory that was given back comes in small pages: a huge one would hold more
// than what is in use. Any thread.
void Arena::use_small_pages(std::uint64_t first, std::uint64_t count) {
  const std::uint64_t advised = advised_.load(std::memory_order_relaxed);
  std::uint64_t from = round_down(first, kHugePage);
  std::uint64_t to = std::min(round_up(first + count, kHugePage), advised);
  if (from >= to) {
    return;
  }
  if (exceptions_.fetch_add(1, std::memory_order_relaxed) >= tuning::kMaxExceptions) {
    advised_.store(0, std::memory_order_relaxed);
    exceptions_.store(0, std::memory_order_relaxed);
    from = 0;
    to = advised;
  }
  os::advise_huge(space_->address(from), (to - from) * kGranule, false);
}

// Enters a claim into the books, and gives old memory back where the total would pass the peak.
void Arena::account(const PageMap::Claim& claim, std::uint64_t count) {
  const std::uint64_t live = live_.fetch_add(count, std::memory_order_relaxed) + count;
  dirty_.fetch_sub(claim.dirty, std::memory_order_relaxed);
  window_least_ = std::min(window_least_, live - count);
  window_peak_ = std::max(window_peak_, live);
  peak_ = std::max(peak_.load(std::memory_order_relaxed), live);
  purge_some(std::min(excess(), count + tuning::kMaxAhead / kGranule), count);
}

// More than may be kept, in granules.
std::uint64_t Arena::excess() const {
  const std::uint64_t held =
      live_.load(std::memory_order_relaxed) + dirty_.load(std::memory_order_relaxed);
  const std::uint64_t most = most_kept();
  return held > most ? held - most : 0;
}

// Gives up to so many granules back, no further than a walk near the lowest free granule and one
// where the last stopped, for a call about `count` granules; their number.
std::uint64_t Arena::purge_some(std::uint64_t granules, std::uint64_t count) {
  if (granules == 0) {
    return 0;
  }
  const std::uint64_t ranges = count + tuning::kMaxRanges;
  const std::uint64_t most = tuning::kMaxWalkSteps + granules / 8;
  PageMap::Walk near{lowest_free_.load(std::memory_order_acquire), top_, most};
  const std::uint64_t done = purge(near, granules, ranges);
  if (done >= granules || near.at >= top_) {
    return done;
  }
  PageMap::Walk far{std::max(near.at, far_purge_), top_, most};
  const std::uint64_t more = purge(far, granules - done, ranges);
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
  const std::uint64_t count = granules_of(bytes);
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
  pages.note_claimed(first + now, count - now);
  top_ = std::max(top_, first + count);
  account(claim, count - now);
  return true;
}

bool Arena::free(void* start, bool at_once) {
  const std::uint64_t first = space_->granule_of(start);
  // While the block is still in use nobody else can have its granules, so the memory goes first.
  const std::uint64_t length = space_->pages.length(first);
  const bool clean = at_once && os::purge(start, length * kGranule);
  if (clean) {
    use_small_pages(first, length);
  }
  space_->pages.note_free(first, length, clean);
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

// Gives dirty granules on the walk back, in at most so many ranges; their number. What the system
// refuses to take, such as pages that the program has locked, stays as it is.
std::uint64_t Arena::purge(PageMap::Walk& walk, std::uint64_t granules, std::uint64_t ranges) {
  const std::uint64_t before = walk.steps;
  std::uint64_t done = 0;
  for (; done < granules && ranges != 0; --ranges) {
    const PageMap::Run run = space_->pages.next_dirty(walk, granules - done);
    if (run.count == 0) {
      break;
    }
    const std::uint64_t given = space_->give_back(run.first, run.count);
    if (given != 0) {
      use_small_pages(run.first, run.count);
    }
    done += given;
  }
  steps_ += before - walk.steps;
  dirty_.fetch_sub(done, std::memory_order_relaxed);
  purged_.fetch_add(done, std::memory_order_relaxed);
  return done;
}

std::uint64_t Arena::trim(std::uint64_t bytes, std::uint64_t less) {
  const std::uint64_t live = live_.load(std::memory_order_relaxed);
  const std::uint64_t peak = peak_.load(std::memory_order_relaxed);
  if (less != kAll) {
    peak_ = std::max(live, peak - std::min(peak, granules_of(less)));
    window_peak_ = std::min(window_peak_, peak_.load(std::memory_order_relaxed));
    return shed(excess(), bytes);
  }
  peak_ = window_peak_ = window_least_ = live;
  return shed(dirty_.load(std::memory_order_relaxed), bytes);
}

std::uint64_t Arena::age(std::uint64_t bytes) {
  const std::uint64_t live = live_.load(std::memory_order_relaxed);
  peak_ = std::max(window_peak_, live);
  const std::uint64_t more = excess();
  window_peak_ = window_least_ = live;
  return shed(more, bytes);
}

std::uint64_t Arena::settle(std::uint64_t bytes) {
  return purge_all(std::min(excess(), bytes / kGranule));
}

std::uint64_t Arena::retreat() {
  const std::uint64_t end = space_->pages.tail(PageMap::Tail::kClean, 0, top_);
  space_->pages.note_claimed(end, top_ - end);
  top_ = end;
  newest_ = std::min(newest_, end);
  far_ = far_purge_ = 0;
  std::uint64_t lowest = lowest_free_.load(std::memory_order_relaxed);
  while (end < lowest &&
         !lowest_free_.compare_exchange_weak(lowest, end, std::memory_order_acq_rel)) {
  }
  // Advice on huge pages is lost with the mapping.
  advised_.store(std::min(advised_.load(std::memory_order_relaxed), round_up(end, kHugePage)),
                 std::memory_order_relaxed);
  return space_->retreat(end);
}

// Gives so many granules back, where `bytes` allow it; bytes.
std::uint64_t Arena::shed(std::uint64_t granules, std::uint64_t bytes) {
  const std::uint64_t most = bytes / kGranule;
  return bytes == kAll ? purge_all(granules)
                       : purge_some(std::min(granules, most), most) * kGranule;
}

// As purge_some(), but over all of the arena, from where the last far walk stopped; bytes.
std::uint64_t Arena::purge_all(std::uint64_t granules) {
  PageMap::Walk rest{std::max(lowest_free_.load(std::memory_order_acquire), far_purge_), top_};
  std::uint64_t done = purge(rest, granules, UINT64_MAX);
  far_purge_ = rest.at < top_ ? rest.at : 0;
  if (done < granules) {
    PageMap::Walk whole{lowest_free_.load(std::memory_order_acquire), top_};
    done += purge(whole, granules - done, UINT64_MAX);
  }
  return done * kGranule;
}

bool Arena::valid() const {
  PageMap::Sums sums;
  if (!space_->pages.valid(top_, &sums) || sums.used != live_.load() ||
      sums.dirty != dirty_.load()) {
    return false;
  }
  const std::uint64_t lowest = std::min(lowest_free_.load(), top_);
  return space_->pages.next_free(0, lowest).count == 0;
}

}  // namespace memo
