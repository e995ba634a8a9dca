#include "src/serve/arena.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/os.h"
#include "src/base/resident.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/serve/written.h"

namespace memo {
namespace {

// Of the peak: so much is taken before it is looked how much of it had gone.
constexpr std::uint64_t kTurns = 16;
// Milliseconds for another thread to end its free().
constexpr std::uint64_t kMoments = 3;
// A shorter gap in the memory of a block counts as memory.
constexpr Granules kLeastGap{16};

}  // namespace

void Arena::open(Space* space, ArenaBooks* books, bool huge) {
  space_ = space;
  books_ = books;
  space_->index(free_);
  if (huge) {
    huge_pages.allow();
  }
}

Arena::Block Arena::allocate(std::uint64_t bytes, std::uint64_t alignment, From from) {
  const Granules count = granules_of(bytes);
  const Granules step = std::max(granules_in(alignment), Granules{1});
  if (count >= granules_in(space_->bytes()) || !free_.has_room()) {
    return {.full = true};
  }
  free_.enter(tuning::kCallWork);
  Met met{.share = count < Shares::kLeast ? Share{count} : books_->shares.of(count)};
  const Granules written = met.share.written;
  const auto spare = spare_.any() ? place_in_spare(count, step) : std::nullopt;
  // Of a block that writes its last page, too, the place's end counts as much as its start.
  const bool known = met.share.where == Shares::Where::kFirst;
  const FreeIndex::Place place = spare ? *spare : find(count, known ? written : count, step, from);
  if (from == From::kMemory && !spare && !place.found()) {
    return {};
  }
  const Granules end = place.start + count;
  if (end > top_ && !space_->commit(bytes_of(end))) {
    return {.full = end >= granules_in(space_->bytes())};
  }
  const std::uint64_t alive = bytes_of(books_->held.in_memory());
  met.dirty = known ? space_->pages.look(place.start, written).dirty : written;
  PageMap::Claim claim = space_->pages.claim(place.start, count);
  met.dirty = std::min(met.dirty, claim.dirty);
  MEMO_DCHECK(claim.granted);
  if (!claim.granted) {
    return {};
  }
  met.there = claim.dirty == count ? count : std::min(free_.there(place), count);
  free_.take(place, end);
  if (place.start > top_) {
    free_.add(top_, place.start - top_);
  }
  const Granules top = std::exchange(top_, std::max(top_, end));
  account(place.start, claim, count, met);
  if (!huge_pages.allowed() || alive < tuning::kWorthHugePages || books_->headroom.is_tight()) {
    // None, or the last one, half empty, would count.
  } else if (end > top) {
    huge_pages.advise(*space_, books_->ahead, alive, top, end);
  } else if (count - claim.dirty >= kHugePage) {
    huge_pages.restore(*space_, books_->ahead, alive, place.start, end, top);
  }
  long_lived.note_taken(place.start, end);
  return {.start = space_->address(place.start),
          .zero = claim.dirty == Granules{0},
          .resident = claim.dirty == count,
          .lacking = bytes_of(written - met.dirty)};
}

// Enters the claim of a block into the books. Where the total would pass the peak, old memory is
// given back: first that which the block has and is not expected to write.
void Arena::account(Granules first, PageMap::Claim& claim, Granules count, Met& met) {
  if (count < Shares::kLeast) {
    books_->held.take(count, claim.dirty);
    give_excess_back(count);
    return;
  }
  using Where = Shares::Where;
  const auto [written, where] = met.share;
  Expected expected(count, written, claim.dirty == Granules{0});
  const Granules spared = count - expected.of(count);
  Expected stale(count, claim.dirty - met.dirty, false);
  note(first, Noted::kRaised, books_->held.take(count, claim.dirty, spared, stale.of(count)));
  note(first, Noted::kPeak, books_->held.peak());
  const Granules right = where == Where::kFirst ? written : Granules{0};
  const bool beyond = stale.word() != 0 && books_->held.excess() != Granules{0};
  const bool wrong = (where == Where::kMoves && moves_.waits()) ||
                     (beyond && holds_more(first, count, right, written));
  if (beyond && !wrong) {
    books_->held.renew(stale.of(count));
    stale = Expected(0);
  }
  if (wrong && claim.dirty != Granules{0} &&
      os::purge(space_->address(first + right), bytes_of(count - right))) {
    huge_pages.take_out(*space_, first + right, count - right);
    met.dirty = claim.dirty = where == Where::kFirst ? met.dirty : Granules{0};
    met.there = std::min(met.there, right);
    books_->held.renew(stale.of(count));
    stale = Expected(0);
    expected = Expected(count, written, claim.dirty == Granules{0});
  }
  expect(first, expected, stale);
  note(first, Noted::kThereBefore, met.there);
  give_excess_back(count);
}

// Behind `right` granules the block that is taken has more memory than it needs to write `written`.
// Short gaps count as memory, and may be all that the books have more.
bool Arena::holds_more(Granules first, Granules count, Granules right, Granules written) const {
  const std::uint64_t there =
      os::resident_bytes(space_->address(first + right), bytes_of(count - right));
  return there == 0 || !is_whole(bytes_of(right) + there, bytes_of(written));
}

void Arena::give_excess_back(Granules count) {
  const Granules excess = books_->held.excess();
  Granules given;
  if (excess != Granules{0} && !refusals_.waits()) {
    const Granules most = std::min(excess, count + granules_in(tuning::kStepBytes));
    given = give_back_runs(most, count.count() + tuning::kCallWork);
  }
  judge(count, given);
}

// `taken` and `given` are what a call has taken and given back. While the peak hardly grows, the
// next calls take again what was given back: where that is much, a slack costs less.
void Arena::judge(Granules taken, Granules given) {
  const Granules peak = books_->held.peak();
  if (peak <= judged_.peak + judged_.peak / tuning::kNewLoop) {
    judged_.taken += taken;
    judged_.given += given;
    if (judged_.taken < kTurns * peak) {
      return;
    }
    if (judged_.given >= judged_.taken / tuning::kComesBack) {
      books_->held.allow_slack(tuning::kPoolSlack, true);
    }
  }
  judged_ = {.peak = peak, .taken = {}, .given = {}};
}

// Gives a free run back that is not in the index, and enters it. How many of its granules had
// memory and lost it: of a block that was written in part only some have any.
Granules Arena::give_back(PageMap::Run run) {
  const Granules given = space_->give_back(run.first, run.count);
  if (given != Granules{0}) {
    huge_pages.take_out(*space_, run.first, run.count);
    books_->held.give_back(given);
  }
  free_.add(run.first, run.count);
  return given;
}

// Gives so many dirty granules back, in at most so many ranges; their number. Where the system
// takes none, calls ask again more and more seldom.
Granules Arena::give_back_runs(Granules granules, std::uint64_t ranges) {
  Granules done;
  bool refused = false;
  FreeIndex::Dirty dirty(free_, std::max(granules, Granules{1}));
  for (; done < granules && ranges != 0; --ranges) {
    const PageMap::Run run = dirty.take();
    if (!run.found()) {
      break;
    }
    // What is left is at the low end, where a block would begin.
    const Granules part = std::min(run.count, granules - done);
    if (part < run.count) {
      free_.add(run.first, run.count - part);
    }
    const Granules given = give_back({run.end() - part, part});
    done += given;
    refused = refused || given == Granules{0};
  }
  if (done != Granules{0}) {
    refusals_.restart();
  } else if (refused) {
    refusals_.refused(tuning::kMaxWait);
  }
  return done;
}

// All that is free is in the index.
void Arena::enter_all() {
  free_.enter(UINT64_MAX);
  if (spare_.any()) {
    const PageMap::Run spare = spare_.take();
    free_.add(spare.first, spare.count);
  }
}

std::optional<std::uint64_t> Arena::resize(void* start, std::uint64_t bytes) {
  PageMap& pages = space_->pages;
  const Granules first = space_->granule_of(start);
  const Granules now = pages.length(first);
  const Granules count = granules_of(bytes);
  if (count == now) {
    return 0;
  }
  if (count < now) {
    shrink(first, now, std::max(count, Granules{1}));
    return 0;
  }
  free_.enter(tuning::kCallWork);
  const Granules end = first + count;
  const bool at_top = first + now == top_;
  const FreeIndex::Place place =
      at_top ? FreeIndex::Place{top_} : free_.behind(first + now, end, top_);
  if ((!at_top && !place.found()) || end >= granules_in(space_->bytes()) ||
      !space_->commit(bytes_of(end))) {
    return std::nullopt;
  }
  const PageMap::Claim claim = pages.extend(first, count);
  if (!claim.granted) {
    return std::nullopt;
  }
  free_.take(place, end);
  long_lived.note_taken(first + now, end);
  top_ = std::max(top_, end);
  forget_spared(first, now);
  books_->held.take(count - now, claim.dirty);
  if (count >= Shares::kLeast) {
    expect(first, Expected(count, count, false), Expected(0));
    note(first, Noted::kRaised, count);
    if (now < Shares::kLeast) {
      note(first, Noted::kThereBefore, Granules{0});
    }
  }
  give_excess_back(count - now);
  return bytes_of(count - now - claim.dirty);
}

// Cuts off what is behind `left` granules of a block in use. Of a long tail that memory stays which
// was there before the block, as if the tail had not been taken; what came with it goes.
void Arena::shrink(Granules first, Granules now, Granules left) {
  const Granules tail = now - left;
  Granules given;
  if (tail >= Shares::kLeast) {
    const bool looks = books_->looks && now <= granules_in(tuning::kMostLooked);
    const std::uint64_t there =
        looks ? os::resident_bytes(space_->address(first), bytes_of(now)) : 0;
    if (there != 0) {
      const Expected expected(expectation(first).load(std::memory_order_relaxed));
      books_->shares.note(now, granules_of(there), expected.fresh(), there <= bytes_of(left));
    }
    const Granules kept = std::clamp(noted(first, Noted::kThereBefore), left, now);
    if (kept < now && os::purge(space_->address(first + kept), bytes_of(now - kept))) {
      given = now - kept;
      huge_pages.take_out(*space_, first + kept, given);
    }
    overestimated(first, sub_sat(tail, spared(first, now)));
  }
  forget_spared(first, now);
  if (left >= Shares::kLeast) {
    note(first, Noted::kThereBefore, std::min(noted(first, Noted::kThereBefore), left));
  }
  space_->pages.shrink(first, left, given);
  books_->held.free(tail, tail - given);
  free_.add(first + left, tail);
}

// Lowers the pool's peak for a block that has `count` granules fewer in memory than it counted for.
// If the peak has not changed since the block was taken, other blocks reached it earlier: then only
// what this block added is taken off. A block that has grown counts as having added all of it.
void Arena::overestimated(Granules first, Granules count) {
  const bool last = books_->held.peak() == noted(first, Noted::kPeak);
  books_->held.overestimated(count, last ? std::min(count, noted(first, Noted::kRaised)) : count);
}

// A block of `count` granules changes its size: it counts as written.
void Arena::forget_spared(Granules first, Granules count) {
  books_->held.spare(0 - spared(first, count).count());
  books_->held.renew(stale(first, count));
  if (count >= Shares::kLeast) {
    expect(first, Expected(count, count, false), Expected(0));
  }
}

// Of a block in use that is about to be freed what has no memory is marked so; granules of it.
// `all` of it, also where the rest would be beyond what may be kept: later it would go piece by
// piece.
Granules Arena::spare_unwritten(Granules first, Granules length, bool all) {
  if (length > granules_in(tuning::kMostLooked)) {  // nothing of it is known to be written
    overestimated(first, length - spared(first, length));
    return os::purge(space_->address(first), bytes_of(length)) ? length : Granules{0};
  }
  os::Residents memory(space_->address(first), bytes_of(length));
  Granules there;
  Granules beginning;  // of these, before the first gap
  Granules given;
  std::uint64_t gaps = 0;
  for (os::Residents::Stretch stretch; memory.next(stretch);) {
    there += stretch.there ? granules_of(stretch.bytes) : Granules{0};
    if (stretch.there && stretch.start == space_->address(first)) {
      beginning = there;
    }
    if (stretch.there || all || gaps == tuning::kCallWork) {
      continue;
    }
    const Granules from = std::max(space_->granule_of(stretch.start), first + Granules{1});
    const Granules to = space_->granule_of(stretch.start + stretch.bytes);
    // What was swapped out is not there, and no zeros.
    if (from + kLeastGap <= to && os::purge(space_->address(from), bytes_of(to - from))) {
      space_->pages.mark_clean(from, to - from);
      given += to - from;
      ++gaps;
    }
  }
  if (memory.told()) {
    const bool in_order = bytes_of(there - beginning) <= may_lack(bytes_of(there));
    all = learn(first, length, there, in_order) || all;
  }
  return all && os::purge(space_->address(first), bytes_of(length)) ? length : given;
}

// Notes what a block has written that is about to be freed: `there` granules have memory,
// `in_order` if they lie in one piece from its start. True if all of it is to be given back.
bool Arena::learn(Granules first, Granules length, Granules there, bool in_order) {
  Shares& shares = books_->shares;
  HeldMemory& held = books_->held;
  const Expected expected(expectation(first).load(std::memory_order_relaxed));
  const Granules before = expected.of(length);
  const Granules known = before + stale(first, length);
  const Granules along = std::max(granules_in(may_lack(bytes_of(known))), kLeastGap);
  const bool more = !expected.fresh() && there > known + along;  // than earlier ones have left
  const bool steady =
      (in_order || is_whole(bytes_of(length), bytes_of(there))) && shares.is_about(length, there);
  shares.note(length, there, expected.fresh() || (more && in_order), in_order);
  if (more && !in_order) {
    shares.note_moves(length);
    moves_.refused(tuning::kMaxWait);
  }
  overestimated(first, sub_sat(before, std::max(there, shares.expected(length))));
  return (length >= granules_in(tuning::kMappedAnew) && !steady) ||
         (2 * there < length && held.excess(known, there) > granules_in(may_lack(bytes_of(there))));
}

bool Arena::free(void* start, bool at_once, bool spare, bool looks) {
  using Left = PageMap::Left;
  const Granules first = space_->granule_of(start);
  // While the block is still in use nobody else can have its granules, so the memory goes first.
  const Granules length = space_->pages.length(first);
  const Granules spared = this->spared(first, length);
  const Granules stale = this->stale(first, length);
  Granules given;
  if (looks && length >= Shares::kLeast) {
    given = spare_unwritten(first, length, at_once);
  } else if (at_once && os::purge(start, bytes_of(length))) {
    given = length;
  }
  const bool clean = given == length && length != Granules{0};
  if (clean) {
    huge_pages.take_out(*space_, first, length);
  }
  const Left left = clean ? Left::kNone : given != Granules{0} ? Left::kUnmarked : Left::kAll;
  const Granules count = space_->pages.free(first, left);
  if (count == Granules{0}) {
    return false;
  }
  books_->held.free(count, count - given, spared, stale);
  if (!spare || !spare_.offer(first, count)) {
    free_.defer(first);
  }
  return true;
}

// In some ranges for a caller who says how many `bytes`.
std::uint64_t Arena::trim(Granules granules, std::uint64_t bytes) {
  if (bytes == kAll) {
    enter_all();
    return bytes_of(give_back_runs(granules, UINT64_MAX));
  }
  free_.enter(tuning::kCallWork);
  const Granules most = granules_in(bytes);
  return bytes_of(give_back_runs(std::min(granules, most), most.count() + tuning::kCallWork));
}

void Arena::keep_out(Granules first, Granules end) {
  enter_all();
  const PageStates& states = space_->pages.states();
  end = std::min(end, granules_in(space_->committed_bytes()));
  const auto take = [&](Granules from, Granules to) {
    const PageMap::Claim claim = space_->pages.claim(from, to - from);
    books_->held.take(to - from, claim.dirty, to - from);
    if (to - from >= Shares::kLeast) {
      expect(from, Expected(0), Expected(0));
    }
  };
  std::uint64_t moments = kMoments;
  for (Granules at = first; at < std::min(end, top_);) {
    const std::uint8_t state = states.at(at);
    if ((state & PageStates::kUsed) != 0) {
      at = space_->pages.past(at, state);
      continue;
    }
    // The whole run of the same kind, as the index has it.
    const Granules to = states.alike_until(at, top_);
    Granules from = at;
    while (from > Granules{0} && states.at(from - Granules{1}) == state) {
      --from;
    }
    // Not all of it, while a thread is about to tell of a block that it has freed there. What such
    // a block has left beyond `end` would be lost, since its start is.
    if (moments != 0 && !free_.behind(from, to, top_).found() && os::rest()) {
      --moments;
      enter_all();
      continue;
    }
    const Granules last = std::min(to, end);
    for (; from < last; ++from) {
      free_.take({at, free_.behind(from, from, top_).node}, last);
    }
    take(at, last);
    at = last;
  }
  if (top_ < end) {
    const Granules from = std::max(first, top_);
    if (top_ < from) {
      free_.add(top_, from - top_);
    }
    top_ = end;
    take(from, end);
  }
}

std::uint64_t Arena::retreat() {
  enter_all();
  const Granules end = space_->pages.tail(PageMap::Tail::kClean, Granules{0}, top_);
  if (end < top_) {
    // None where a block in it has just been freed, and is not entered yet.
    const FreeIndex::Place run = free_.behind(end, top_, top_);
    if (!run.found()) {
      return 0;
    }
    free_.take(run, top_);
    top_ = end;
  }
  huge_pages.retreat(end);
  return space_->retreat(end);
}

bool Arena::valid(PageMap::Sums& sums) {
  enter_all();
  return space_->pages.valid(top_, &sums) && free_.valid(top_);
}

}  // namespace memo
