#include "src/serve/arena.h"

#include <algorithm>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

void Arena::open(Space* space, bool huge_pages) {
  space_ = space;
  space_->know_free_chunks();
  if (huge_pages) {
    huge_pages_.allow();
  }
}

// A free place for `count` granules below the top: near the lowest free granule; then where the
// last far walk found one, or else stopped; then in what was taken from the top last.
FreeRuns::Run Arena::find(std::uint64_t count, std::uint64_t step) {
  const std::uint64_t most =
      tuning::kMaxWalkSteps + tuning::kWalkStepsPerWord * (count / PageStates::kWord + 1);
  const auto look = [&](FreeRuns::Walk& walk) {
    const FreeRuns::Run run = space_->runs.best_fit(walk, count, step);
    steps_ += most - walk.steps;
    return run;
  };
  FreeRuns::Walk near{lowest_free_.get(), top_, most};
  FreeRuns::Run run = look(near);
  if (run.count != 0 || near.at >= top_) {
    return run;
  }
  FreeRuns::Walk far{std::max(near.at, far_), top_, most};
  run = look(far);
  if (run.count == 0) {
    far_ = far.at < top_ ? far.at : 0;
    FreeRuns::Walk last{newest_, top_, most};
    run = look(last);
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
  const FreeRuns& runs = space_->runs;
  FreeRuns::Run run = find(count, step);
  PageMap::Claim claim;
  if (run.count != 0) {
    claim = pages.claim(run.first, count);
    runs.note_claimed(run.first, count);
  }
  if (!claim.granted) {
    // What is free below the top is part of it: a block that grows by being copied moves on there.
    run = {round_up(runs.tail(FreeRuns::Tail::kFree, top_ - std::min(top_, count), top_), step),
           count};
    if (!space_->commit((run.first + count) * kGranule)) {
      return {};
    }
    claim = pages.claim(run.first, count);
    if (!claim.granted) {
      return {};
    }
    runs.note_claimed(run.first, count);
  }
  account(claim, count);
  if (run.first + count > top_) {
    if (alignment >= tuning::kTensorAlignment && held_.live_bytes() >= tuning::kWorthHugePages) {
      huge_pages_.advise(*space_, top_, run.first + count);
    }
    newest_ = run.first;
    top_ = run.first + count;
  }
  lowest_free_.take(run.first, run.first + count);
  return {.start = space_->address(run.first),
          .zero = claim.dirty == 0,
          .resident = claim.dirty == count,
          .lacking = (count - claim.dirty) * kGranule};
}

// Enters a claim into the books, and gives old memory back where the total would pass the peak.
void Arena::account(const PageMap::Claim& claim, std::uint64_t count) {
  held_.take(count, claim.dirty);
  const std::uint64_t excess = held_.excess();
  if (excess != 0 && !refusals_.waits()) {
    purge_some(std::min(excess, count + tuning::kMaxAhead / kGranule), count);
  }
}

// Gives up to so many granules back, no further than a walk near the lowest free granule and one
// where the last stopped, for a call about `count` granules; their number.
std::uint64_t Arena::purge_some(std::uint64_t granules, std::uint64_t count) {
  if (granules == 0) {
    return 0;
  }
  const std::uint64_t ranges = count + tuning::kMaxRanges;
  const std::uint64_t most = tuning::kMaxWalkSteps + granules / PageStates::kWord;
  FreeRuns::Walk near{lowest_free_.get(), top_, most};
  const std::uint64_t done = purge(near, granules, ranges);
  if (done >= granules || near.at >= top_) {
    return done;
  }
  FreeRuns::Walk far{std::max(near.at, far_purge_), top_, most};
  const std::uint64_t more = purge(far, granules - done, ranges);
  far_purge_ = far.at < top_ ? far.at : 0;
  return done + more;
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
    held_.free(given, given);
    lowest_free_.lower(first + count);
    return true;
  }
  if (first + count >= space_->bytes() / kGranule || !space_->commit((first + count) * kGranule)) {
    return false;
  }
  const PageMap::Claim claim = pages.extend(first, count);
  if (!claim.granted) {
    return false;
  }
  space_->runs.note_claimed(first + now, count - now);
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
    huge_pages_.take_out(*space_, first, length);
  }
  space_->runs.note_free(first, length, clean);
  const std::uint64_t count = space_->pages.release(first, clean);
  if (count == 0) {
    return false;
  }
  held_.free(count, clean ? 0 : count);
  lowest_free_.lower(first);
  return true;
}

// Gives dirty granules on the walk back, in at most so many ranges; their number. What the system
// refuses to take, such as pages that the program has locked, stays as it is; where it takes none,
// calls ask again more and more seldom.
std::uint64_t Arena::purge(FreeRuns::Walk& walk, std::uint64_t granules, std::uint64_t ranges) {
  const std::uint64_t before = walk.steps;
  std::uint64_t done = 0;
  bool refused = false;
  for (; done < granules && ranges != 0; --ranges) {
    const FreeRuns::Run run = space_->runs.next_dirty(walk, granules - done);
    if (run.count == 0) {
      break;
    }
    const std::uint64_t given = space_->give_back(run.first, run.count);
    if (given != 0) {
      huge_pages_.take_out(*space_, run.first, run.count);
    }
    done += given;
    refused = refused || given == 0;
  }
  if (done != 0) {
    refusals_.restart();
  } else if (refused) {
    refusals_.refused(tuning::kMaxWait);
  }
  steps_ += before - walk.steps;
  held_.give_back(done);
  return done;
}

std::uint64_t Arena::trim(std::uint64_t bytes, std::uint64_t less) {
  if (less != kAll) {
    held_.forget(granules_of(less));
    return shed(held_.excess(), bytes);
  }
  held_.forget();
  return shed(held_.dirty(), bytes);
}

std::uint64_t Arena::age(std::uint64_t bytes) {
  return shed(held_.age(), bytes);
}

std::uint64_t Arena::settle(std::uint64_t bytes) {
  return purge_all(std::min(held_.excess(), bytes / kGranule));
}

std::uint64_t Arena::retreat() {
  const std::uint64_t end = space_->runs.tail(FreeRuns::Tail::kClean, 0, top_);
  space_->runs.note_claimed(end, top_ - end);
  top_ = end;
  newest_ = std::min(newest_, end);
  far_ = far_purge_ = 0;
  lowest_free_.lower(end);
  huge_pages_.retreat(end);
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
  FreeRuns::Walk rest{std::max(lowest_free_.get(), far_purge_), top_};
  std::uint64_t done = purge(rest, granules, UINT64_MAX);
  far_purge_ = rest.at < top_ ? rest.at : 0;
  if (done < granules) {
    FreeRuns::Walk whole{lowest_free_.get(), top_};
    done += purge(whole, granules - done, UINT64_MAX);
  }
  return done * kGranule;
}

bool Arena::valid() const {
  PageMap::Sums sums;
  return space_->pages.valid(top_, &sums) && space_->runs.valid(top_) &&
         sums.used == held_.live() && sums.dirty == held_.dirty() &&
         space_->runs.next_free(0, std::min(lowest_free_.get(), top_)).count == 0;
}

}  // namespace memo
