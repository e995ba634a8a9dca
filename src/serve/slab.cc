// See slab.h. Hot.
#include "src/serve/slab.h"

#include <algorithm>
#include <utility>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
void Slab::open(Space* space, SlabBooks* books, Pool* pool) {
  space_ = space;
  books_ = books;
  pool_ = pool;
}

bool Slab::change(std::uint64_t before, std::uint64_t after) {
  if (!word_.compare_exchange_strong(before, after & ~SlabWord::kTorn, std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
    return false;
  }
  if ((before & SlabWord::kTorn) != 0) {
    give_back();
  }
  return true;
}

void Slab::hold(std::uint64_t word) {
  MEMO_DCHECK(!SlabWord::is_free(this->word()) &&
              SlabWord::lane(this->word()) == SlabWord::lane(word));
  word_.store(word, std::memory_order_release);
}

void Slab::let_go(Nanos now) {
  MEMO_DCHECK(!is_free());
  MEMO_DCHECK(SlabWord::lane(word()) != SlabWord::kNoLane || height() == 0);
  want_deaths(false);
  use(now);
  told_ = room_made_ = false;
  word_.store(word_.load(std::memory_order_relaxed) | SlabWord::kFree, std::memory_order_release);
}

void Slab::orphan() {
  want_deaths(false);
  word_.store(SlabWord::held(SlabWord::lane(word()), 0) | SlabWord::kFree | SlabWord::kTorn,
              std::memory_order_release);
}

void Slab::note_bound(std::uint64_t bytes) {
  bound_.store(std::max(bound(), bytes), std::memory_order_relaxed);
}

Slab::Raised Slab::raise(std::uint64_t height, bool trial) {
  if (height <= this->height()) {
    want(height);
    return Raised::kEnough;
  }
  // Known plans are tried again, so being refused must cost little, and is said once.
  const bool tallest = height > this->tallest();
  const std::uint64_t more = height - this->height();
  if (!reserve(height)) {
    if (!std::exchange(told_, true) && books_->verbose >= 1) {
      Line()
          << "no memory for a slab of " << height
          << " bytes; serving without one (MEMOMALLOC_SLAB_LIMIT and `ulimit -v` may be too low)";
    }
    return Raised::kRefused;
  }
  want(height);
  told_ = room_made_ = false;
  forget_look();
  ends_to_look_ = pool_->looks() ? kEndsToLook : 0;
  attends_ = pool_->looks() ? Attends::kEmpties : Attends::kNothing;
  if (trial) {
    pool_->trim(more, more);
  } else {
    pool_->make_way(height);
    if (tallest || space().sparing()) {
      pool_->retreat();
    }
  }
  pool_->look_ahead();
  return tallest ? Raised::kTallest : Raised::kTaller;
}

// Where the system refuses memory, the pool's unused memory may be all that is in the way: room is
// made once.
bool Slab::reserve(std::uint64_t height) {
  const std::uint64_t more = height - this->height();
  const std::uint64_t end = origin_ + height;
  if (books_->bytes.fetch_add(more, std::memory_order_relaxed) + more > books_->limit ||
      !(space().commit(end) ||
        (!std::exchange(room_made_, true) && pool_->trim(height + tuning::kMaxGivenBack) != 0 &&
         pool_->retreat() != 0 && space().commit(end)))) {
    books_->bytes.fetch_sub(more, std::memory_order_relaxed);
    return false;
  }
  if (books_->huge_pages == Choice::kNever) {
    os::advise_huge(at(0), round_up(height, os::kHugePage), false);
  }
  MEMO_DCHECK(space().committed_bytes() >= end);
  height_.store(height, std::memory_order_relaxed);
  tallest_.store(std::max(tallest(), height), std::memory_order_relaxed);
  if (books_->verbose >= 2) {
    Line() << "lane " << SlabWord::lane(word()) << ": slab of " << height << " bytes taken";
  }
  return true;
}

// First of all the places are at the slab's start: a child that is forked meanwhile by another
// thread may give a slab of no height memory again.
bool Slab::give_back() {
  forget_huge(0);
  forget_look();
  origin_ = 0;
  const std::uint64_t height = height_.exchange(0, std::memory_order_release);
  if (height == 0) {
    return false;
  }
  books_->bytes.fetch_sub(height, std::memory_order_relaxed);
  if (books_->verbose >= 2) {
    Line() << "lane " << SlabWord::lane(word()) << ": slab of " << height << " bytes given back";
  }
  // Blocks of an earlier plan may have lain higher.
  give_back_between(0, space().committed_bytes());
  return true;
}

void Slab::begin_above() {
  give_back();
  const Granules top = granules_in(space_->committed_bytes());
  origin_ =
      round_up(bytes_of(space_->pages.tail(PageMap::Tail::kFree, Granules{0}, top)), os::kHugePage);
}

void Slab::keep_out(Granules first, Granules end) const {
  PageMap& pages = space().pages;
  end = std::min(end, granules_in(space().committed_bytes()));
  pages.each_free(first, end, [&](PageMap::Run run) { pages.claim(run.first, run.count); });
}

void Slab::trim(std::uint64_t height) {
  const std::uint64_t before = this->height();
  if (before <= height) {
    return;
  }
  MEMO_DCHECK(books_->bytes.load(std::memory_order_relaxed) >= before - height);
  height_.store(height, std::memory_order_relaxed);
  books_->bytes.fetch_sub(before - height, std::memory_order_relaxed);
  give_back_between(origin_ + height, origin_ + memory_end(before));
  forget_huge(height);
}

void Slab::want(std::uint64_t height) {
  wanted_ = granules_of(height);
  raised_to_.note(wanted_);
}

void Slab::age(Nanos now) {
  if (now > window_from_ + 5 * tuning::kAtRest) {
    window_from_ = now;
    raised_to_.age(wanted_);
    trim(bytes_of(raised_to_.get()));
  }
}

void Slab::give_back_unused() const {
  give_back_between(0, origin_ + memory_end(height()));
}

// Gives back the memory of [from, to) that no block uses; bytes from the space's start, whole
// granules. Where committed memory is counted, a last huge page may end behind it.
void Slab::give_back_between(std::uint64_t from, std::uint64_t to) const {
  const PageMap& pages = space().pages;
  const Granules end = granules_in(std::min(to, space().committed_bytes()));
  pages.each_free(granules_in(from), end,
                  [&](PageMap::Run run) { space().give_back(run.first, run.count); });
}

bool Slab::valid() const {
  const std::uint64_t end = std::min(origin_ + tallest(), space().committed_bytes());
  return height() <= tallest() && origin_ + height() <= space().bytes() &&
         space().pages.valid(granules_in(end));
}

}  // namespace memo
