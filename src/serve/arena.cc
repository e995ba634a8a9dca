#include "src/serve/arena.h"

#include <algorithm>

#include "src/base/granule.h"
#include "src/base/os.h"
#include "src/base/resident.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

constexpr Granules kHugePage = granules_in(os::kHugePage);

}  // namespace

void Arena::open(Space* space, bool huge) {
  space_ = space;
  space_->know_free_chunks();
  if (huge) {
    huge_pages.allow();
  }
}

// A free place for `count` granules below the top: near the lowest free granule; then where the
// last far walk found one, or else stopped; then in what was taken from the top last.
FreeRuns::Run Arena::find(Granules count, Granules step) {
  const std::uint64_t most =
      tuning::kMaxWalkSteps + tuning::kWalkStepsPerWord * (count / PageStates::kWord + 1);
  const auto look = [&](FreeRuns::Walk& walk) {
    const FreeRuns::Run run = space_->runs.best_fit(walk, count, step);
    steps_ += most - walk.steps;
    return run;
  };
  FreeRuns::Walk near{lowest_free_.get(), top_, most};
  FreeRuns::Run run = look(near);
  if (run.found() || near.at >= top_) {
    return run;
  }
  FreeRuns::Walk far{std::max(near.at, far_), top_, most};
  run = look(far);
  if (!run.found()) {
    far_ = far.at < top_ ? far.at : Granules{0};
    FreeRuns::Walk last{newest_, top_, most};
    run = look(last);
  }
  return run;
}

Arena::Block Arena::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  const Granules count = granules_of(bytes);
  const Granules step = std::max(granules_in(alignment), Granules{1});
  if (count >= granules_in(space_->bytes())) {
    return {};
  }
  PageMap& pages = space_->pages;
  const FreeRuns& runs = space_->runs;
  if (spare_.any() && !spare_.suits(count)) {
    part_with_spare();
  }
  FreeRuns::Run run = find(count, step);
  const bool covers = run.found() ? count >= kHugePage : round_up(top_, kHugePage) < top_ + count;
  const bool huge = covers && alignment >= tuning::kTensorAlignment &&
                    held_.live_bytes() >= tuning::kWorthHugePages && huge_pages.ready(*space_);
  PageMap::Claim claim;
  if (run.found()) {
    claim = pages.claim(run.first, count);
    runs.note_claimed(run.first, count);
  }
  if (!claim.granted) {
    // What is free below the top is part of it: a block that grows by being copied moves on there.
    run = {round_up(runs.tail(FreeRuns::Tail::kFree, top_ - std::min(top_, count), top_), step),
           count};
    if (!space_->commit(bytes_of(run.end()))) {
      return {};
    }
    claim = pages.claim(run.first, count);
    if (!claim.granted) {
      return {};
    }
    runs.note_claimed(run.first, count);
  }
  const Granules expected = account(space_->address(run.first), claim, count);
  if (spare_.any()) {
    part_with_spare();
  }
  if (run.end() > top_) {
    if (const Granules end = huge ? huge_pages.wanted(top_, run.end()) : top_; end > top_) {
      huge_pages.advise(*space_, top_, end);
    }
    newest_ = run.first;
    top_ = run.end();
  } else if (huge && count - claim.dirty >= granules_in(os::kHugePage)) {
    huge_pages.restore(*space_, run.first, huge_pages.wanted(run.first, run.end()));
  }
  lowest_free_.take(run.first, run.end());
  return {.start = space_->address(run.first),
          .zero = claim.dirty == Granules{0},
          .resident = claim.dirty == count,
          .lacking = bytes_of(expected - std::min(expected, claim.dirty))};
}

// Enters the claim of a block into the books, and gives old memory back where the total would pass the peak: first what
// a block has of it that will not write it. How much of the block is expected to be written.
Granules Arena::account(void* start, PageMap::Claim& claim, Granules count) {
  Granules written = count;
  if (count >= Shares::kLeast) {
    const bool fresh = claim.dirty == Granules{0};
    const Granules known = shares_.expected(count);
    const Granules first = space_->granule_of(start);
    Expected expected(count, std::max(known, claim.dirty), fresh);
    const Granules spared = count - expected.of(count);
    written = known;
    held_.take(count, claim.dirty, spared);
    if (claim.dirty > known && held_.excess() != Granules{0} && os::purge(start, bytes_of(count))) {
      huge_pages.take_out(*space_, first, count);
      claim.dirty = Granules{0};
      expected = Expected(count, known, true);
      held_.spare((count - expected.of(count) - spared).count());
    }
    expectation(first).store(expected.word(), std::memory_order_relaxed);
  } else {
    held_.take(count, claim.dirty);
  }
  give_excess_back(count);
  return written;
}

void Arena::give_excess_back(Granules count) {
  const Granules excess = held_.excess();
  if (excess != Granules{0} && !refusals_.waits()) {
    purge_some(std::min(excess, count + granules_in(tuning::kMaxAhead)), count);
  }
}

// What the last block has left goes back, as far as nobody uses it.
void Arena::part_with_spare() {
  FreeRuns::Walk walk = spare_.walk();
  purge(walk, walk.to - walk.at, UINT64_MAX);
  spare_.clear();
}

// Gives up to so many granules back, no further than a walk near the lowest free granule and one
// where the last stopped, for a call about `count` granules; their number.
Granules Arena::purge_some(Granules granules, Granules count) {
  if (granules == Granules{0}) {
    return granules;
  }
  const std::uint64_t ranges = count.count() + tuning::kMaxRanges;
  const std::uint64_t most = tuning::kMaxWalkSteps + granules / PageStates::kWord;
  FreeRuns::Walk near{lowest_free_.get(), top_, most};
  const Granules done = purge(near, granules, ranges);
  if (done >= granules || near.at >= top_) {
    return done;
  }
  FreeRuns::Walk far{std::max(near.at, far_purge_), top_, most};
  const Granules more = purge(far, granules - done, ranges);
  far_purge_ = far.at < top_ ? far.at : Granules{0};
  return done + more;
}

bool Arena::resize(void* start, std::uint64_t bytes) {
  PageMap& pages = space_->pages;
  const Granules first = space_->granule_of(start);
  const Granules now = pages.length(first);
  const Granules count = granules_of(bytes);
  if (count == now) {
    return true;
  }
  if (count < now) {
    const Granules left = std::max(count, Granules{1});
    char* const tail = space_->address(first + left);
    const bool clean = now - left >= Shares::kLeast && os::purge(tail, bytes_of(now - left));
    if (clean) {
      huge_pages.take_out(*space_, first + left, now - left);
      held_.overestimated(now - left - std::min(now - left, spared(first, now)));
    }
    forget_spared(first, now);
    const Granules given = pages.shrink(first, left, clean);
    held_.free(given, clean ? Granules{0} : given);
    lowest_free_.lower(first + left);
    return true;
  }
  if (first + count >= granules_in(space_->bytes()) || !space_->commit(bytes_of(first + count))) {
    return false;
  }
  const PageMap::Claim claim = pages.extend(first, count);
  if (!claim.granted) {
    return false;
  }
  space_->runs.note_claimed(first + now, count - now);
  top_ = std::max(top_, first + count);
  forget_spared(first, now);
  expectation(first).store(Expected(count, count, false).word(), std::memory_order_relaxed);
  held_.take(count - now, claim.dirty);
  give_excess_back(count - now);
  return true;
}

// A block of `count` granules changes its size: it counts as written.
void Arena::forget_spared(Granules first, Granules count) {
  held_.spare(0 - spared(first, count).count());
  if (count >= Shares::kLeast) {
    expectation(first).store(Expected(count, count, false).word(), std::memory_order_relaxed);
  }
}

// Of a block in use that is about to be freed what has no memory is marked so; granules of it. Short gaps count as there.
Granules Arena::spare_unwritten(Granules first, Granules length) {
  constexpr Granules kLeastGap{16};
  os::Residents memory(space_->address(first), bytes_of(length));
  Granules there;
  Granules given;
  std::uint64_t gaps = 0;
  for (os::Residents::Stretch stretch; memory.next(stretch);) {
    there += stretch.there ? granules_of(stretch.bytes) : Granules{0};
    if (stretch.there || gaps == tuning::kMaxRanges) {
      continue;
    }
    const Granules from = std::max(space_->granule_of(stretch.start), first + Granules{1});
    const Granules to = space_->granule_of(stretch.start + stretch.bytes);
    // What was swapped out is not there, and no zeros.
    if (from + kLeastGap <= to && os::purge(space_->address(from), bytes_of(to - from))) {
      space_->pages.mark_given(from, to - from);
      given += to - from;
      ++gaps;
    }
  }
  if (memory.told()) {
    const Expected expected(expectation(first).load(std::memory_order_relaxed));
    const Granules before = expected.of(length);
    shares_.note(length, there, expected.fresh());
    held_.overestimated(before - std::min(before, std::max(there, shares_.expected(length))));
  }
  return given;
}

bool Arena::free(void* start, Keep keep) {
  using Left = PageMap::Left;
  const Granules first = space_->granule_of(start);
  // While the block is still in use nobody else can have its granules, so the memory goes first.
  const Granules length = space_->pages.length(first);
  const Granules spared = this->spared(first, length);
  const bool clean = keep == Keep::kNone && os::purge(start, bytes_of(length));
  Granules given = clean ? length : Granules{0};
  if (clean) {
    huge_pages.take_out(*space_, first, length);
  } else if (keep == Keep::kWritten && length >= Shares::kLeast) {
    given = spare_unwritten(first, length);
  }
  space_->runs.note_free(first, length, clean);
  const Left left = clean ? Left::kNone : given != Granules{0} ? Left::kUnmarked : Left::kAll;
  const Granules count = space_->pages.release(first, left);
  if (count == Granules{0}) {
    return false;
  }
  held_.free(count, count - given, spared);
  lowest_free_.lower(first);
  return true;
}

// Gives dirty granules on the walk back, in at most so many ranges; their number. What the system
// refuses to take, such as pages that the program has locked, stays as it is; where it takes none,
// calls ask again more and more seldom.
Granules Arena::purge(FreeRuns::Walk& walk, Granules granules, std::uint64_t ranges) {
  const std::uint64_t before = walk.steps;
  Granules done;
  bool refused = false;
  for (; done < granules && ranges != 0; --ranges) {
    const FreeRuns::Run run = space_->runs.next_dirty(walk, granules - done);
    if (!run.found()) {
      break;
    }
    const Granules given = space_->give_back(run.first, run.count);
    if (given != Granules{0}) {
      huge_pages.take_out(*space_, run.first, run.count);
    }
    done += given;
    refused = refused || given == Granules{0};
  }
  if (done != Granules{0}) {
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
  return purge_all(std::min(held_.excess(), granules_in(bytes)));
}

std::uint64_t Arena::retreat() {
  const Granules end = space_->runs.tail(FreeRuns::Tail::kClean, Granules{0}, top_);
  space_->runs.note_claimed(end, top_ - end);
  top_ = end;
  newest_ = std::min(newest_, end);
  far_ = far_purge_ = Granules{0};
  lowest_free_.lower(end);
  huge_pages.retreat(end);
  return space_->retreat(end);
}

// Gives so many granules back, where `bytes` allow it; bytes.
std::uint64_t Arena::shed(Granules granules, std::uint64_t bytes) {
  const Granules most = granules_in(bytes);
  return bytes == kAll ? purge_all(granules) : bytes_of(purge_some(std::min(granules, most), most));
}

// As purge_some(), but over all of the arena, from where the last far walk stopped; bytes.
std::uint64_t Arena::purge_all(Granules granules) {
  FreeRuns::Walk rest{std::max(lowest_free_.get(), far_purge_), top_};
  Granules done = purge(rest, granules, UINT64_MAX);
  far_purge_ = rest.at < top_ ? rest.at : Granules{0};
  if (done < granules) {
    FreeRuns::Walk whole{lowest_free_.get(), top_};
    done += purge(whole, granules - done, UINT64_MAX);
  }
  return bytes_of(done);
}

bool Arena::valid() const {
  PageMap::Sums sums;
  return space_->pages.valid(top_, &sums) && space_->runs.valid(top_) &&
         sums.used == held_.live() && sums.dirty == held_.dirty() &&
         !space_->runs.next_free(Granules{0}, std::min(lowest_free_.get(), top_)).found();
}

}  // namespace memo
