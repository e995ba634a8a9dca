// See slab.h. Hot.
#include "src/serve/slab.h"

#include <algorithm>

#include "src/base/bits.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

// Where the advice on huge pages ends in a slab of `height` bytes. By itself it covers those that the
// slab fills, or lacks little of: no more than that is populated beyond the height. A slab's memory is
// committed in steps of many huge pages, so that the last one is there to be had.
std::uint64_t huge_end(Choice choice, std::uint64_t height) {
  const std::uint64_t lacking = os::kHugePage / tuning::kLackingHuge;
  return choice == Choice::kAuto ? round_down(height + lacking, os::kHugePage)
                                 : round_up(height, os::kHugePage);
}

// Where the memory of such a slab may end, its last huge page with it.
std::uint64_t memory_end(Choice choice, std::uint64_t height) {
  return std::max(height, huge_end(choice, height));
}

}  // namespace

void Slab::open(Space* space, SlabBooks* books, Pool* pool, std::uint32_t number) {
  space_ = space;
  books_ = books;
  pool_ = pool;
  number_ = number;
  space->user.set(number, false);
}

// From the first store to the last both slabs lie at the same addresses: so a child that is made
// meanwhile knows which two it has to mend, whichever stores it has seen.
bool Slab::lend(Slab& to, std::uint32_t stores) {
  Space& mine = space();
  Space& other = to.space();
  const std::uint64_t height = this->height();
  const std::uint64_t tallest = this->tallest();
  if (height == 0 || origin_ != 0 || to.height() != 0 || !is_empty(mine)) {
    return false;
  }
  std::uint32_t made = 0;
  const auto store = [&](auto& what, auto value) {
    if (made < stores) {
      what.store(value, std::memory_order_release);
      ++made;
    }
  };
  store(space_, &other);
  store(height_, std::uint64_t{0});
  store(tallest_, to.tallest());
  store(to.tallest_, tallest);
  store(to.height_, height);
  other.user.set(number_, false);
  mine.user.set(to.number_, false);
  store(to.space_, &mine);
  return true;
}

void Slab::mend(Space* space) {
  space_.store(space, std::memory_order_relaxed);
  height_.store(0, std::memory_order_relaxed);
  origin_ = sweeps_ = 0;
  tallest_.store(space->committed_bytes(), std::memory_order_relaxed);
  space->user.set(number_, false);
  purge_free(0, space->committed_bytes());
}

Slab::Raised Slab::raise(std::uint64_t height, bool whole, bool trial) {
  if (height <= this->height()) {
    return Raised::kEnough;
  }
  // Known plans are tried again, so being refused must cost little, and is said once.
  const bool tallest = height > this->tallest();
  const std::uint64_t more = height - this->height();
  std::uint64_t owed = 0;
  if (trial) {
    const Holding& held = pool_->held();
    const std::uint64_t left = held.peak_bytes() - std::min(held.peak_bytes(), more);
    owed = held.live_bytes() - std::min(held.live_bytes(), left);
  }
  // Huge pages half used would come on top of what is alive twice.
  if (!reserve(height, whole && owed <= tuning::kTrialBytes)) {
    if (books_->verbose >= 1 && !refused_) {
      Line()
          << "no memory for a slab of " << height
          << " bytes; serving without one (MEMOMALLOC_SLAB_LIMIT and `ulimit -v` may be too low)";
    }
    refused_ = true;
    return Raised::kRefused;
  }
  refused_ = false;
  if (trial) {
    pool_->returned.owe(owed);
    pool_->trim(more, more);
    return tallest ? Raised::kTallest : Raised::kTaller;
  }
  pool_->trim(height + tuning::kMaxGivenBack);
  if (tallest || space().sparing()) {
    pool_->retreat();
  }
  return tallest ? Raised::kTallest : Raised::kTaller;
}

// Under a limit the pool's unused memory may be all that is in a slab's way. Not time and again:
// what is refused for good is asked for again.
bool Slab::make_room(std::uint64_t height) {
  return !refused_ && pool_->trim(height + tuning::kMaxGivenBack) != 0 && pool_->retreat() != 0;
}

bool Slab::reserve(std::uint64_t height, bool whole) {
  const std::uint64_t more = height - this->height();
  const std::uint64_t end = origin_ + height;
  if (books_->bytes.fetch_add(more, std::memory_order_relaxed) + more > books_->limit ||
      !(space().commit(end) || (make_room(height) && space().commit(end)))) {
    books_->bytes.fetch_sub(more, std::memory_order_relaxed);
    return false;
  }
  const std::uint64_t advised = huge_end(books_->huge_pages, height);
  if (advised > 0) {
    os::advise_huge(at(0), advised, books_->huge_pages != Choice::kNever && whole);
  }
  height_.store(height, std::memory_order_relaxed);
  tallest_.store(std::max(tallest(), height), std::memory_order_relaxed);
  if (books_->verbose >= 2) {
    Line() << "lane " << number_ << ": slab of " << height << " bytes taken";
  }
  return true;
}

void Slab::populate(std::uint64_t from) const {
  const std::uint64_t there = round_down(from, os::page_size());
  os::populate(at(there), round_up(height(), os::page_size()) - there);
}

// First of all the places are at the slab's start: a child that is forked meanwhile by another thread may give a slab of no
// height memory anew.
bool Slab::purge() {
  origin_ = sweeps_ = 0;
  const std::uint64_t height = height_.exchange(0, std::memory_order_release);
  if (height == 0) {
    return false;
  }
  books_->bytes.fetch_sub(height, std::memory_order_relaxed);
  pool_->returned.owe(0);
  if (books_->verbose >= 2) {
    Line() << "lane " << number_ << ": slab of " << height << " bytes given back";
  }
  // Blocks of an earlier plan, or of another lane that had the memory before, may have lain higher.
  purge_free(0, space().committed_bytes());
  return true;
}

void Slab::evade() {
  const std::uint64_t height = this->height();
  const std::uint64_t above = round_up(origin_ + tallest(), os::kHugePage);
  if (!space().commit(above + height)) {
    return;
  }
  if (books_->verbose >= 2) {
    Line() << "lane " << number_ << ": the slab goes on above blocks that stay in it";
  }
  give_back_unused();
  origin_ = above;
  sweeps_ = tuning::kMaxUnroll;
}

void Slab::lower(std::uint64_t height) {
  const std::uint64_t before = this->height();
  if (before <= height) {
    return;
  }
  height_.store(height, std::memory_order_relaxed);
  books_->bytes.fetch_sub(before - height, std::memory_order_relaxed);
  purge_free(origin_ + height, origin_ + memory_end(books_->huge_pages, before));
}

void Slab::give_back_unused() const {
  purge_free(0, origin_ + memory_end(books_->huge_pages, height()));
}

// Gives back the memory of [from, to) that no block uses; bytes from the space's start, whole
// granules. Where committed memory is counted, a last huge page may end behind it.
void Slab::purge_free(std::uint64_t from, std::uint64_t to) const {
  FreeRuns::Walk walk{granules_in(from), granules_in(std::min(to, space().committed_bytes()))};
  for (FreeRuns::Run run = space().runs.next_free(walk); run.found();
       run = space().runs.next_free(walk)) {
    space().give_back(run.first, run.count);
  }
}

bool Slab::valid() const {
  const std::uint64_t end = origin_ + tallest();
  return height() <= tallest() && end <= space().bytes() && space().pages.valid(granules_in(end));
}

}  // namespace memo
