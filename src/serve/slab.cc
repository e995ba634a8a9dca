// See slab.h. Hot.
#include "src/serve/slab.h"

#include <algorithm>
#include <utility>

#include "src/base/bits.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/base/os.h"
#include "src/base/resident.h"
#include "src/base/tuning.h"
#include "src/serve/written.h"

namespace memo {
namespace {

// Where the advice on huge pages ends in a slab of `height` bytes. By itself it covers those that
// the slab fills, or lacks little of. A slab's memory is committed in steps of many huge pages, so
// that the last one is there to be had.
std::uint64_t huge_end(Choice choice, std::uint64_t height) {
  const std::uint64_t lacking = os::kHugePage / tuning::kSmallPart;
  return choice == Choice::kAuto ? round_down(height + lacking, os::kHugePage)
                                 : round_up(height, os::kHugePage);
}

// Where the memory of such a slab may end, its last huge page with it.
std::uint64_t memory_end(Choice choice, std::uint64_t height) {
  return std::max(height, huge_end(choice, height));
}

}  // namespace

void Slab::open(Space* space, SlabBooks* books, Pool* pool) {
  space_ = space;
  books_ = books;
  pool_ = pool;
}

bool Slab::change(std::uint64_t before, std::uint64_t after) {
  if (!word_.compare_exchange_strong(before, after & ~SlabWord::kTorn, std::memory_order_acquire,
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
              std::memory_order_relaxed);
}

void Slab::note_bound(std::uint64_t bytes) {
  bound_.store(std::max(bound(), bytes), std::memory_order_relaxed);
}

Slab::Raised Slab::raise(std::uint64_t height, bool trial) {
  if (height <= this->height()) {
    return Raised::kEnough;
  }
  // Known plans are tried again, so being refused must cost little, and is said once.
  const bool tallest = height > this->tallest();
  const std::uint64_t more = height - this->height();
  if (!reserve(height)) {
    if (books_->verbose >= 1 && !told_) {
      Line()
          << "no memory for a slab of " << height
          << " bytes; serving without one (MEMOMALLOC_SLAB_LIMIT and `ulimit -v` may be too low)";
    }
    told_ = true;
    return Raised::kRefused;
  }
  told_ = room_made_ = false;
  forget_look();
  ends_to_look_ = pool_->looks() ? kEndsToLook : 0;
  attends_ = pool_->looks() ? Attends::kEmpties : Attends::kNothing;
  if (trial) {
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
  if (std::exchange(room_made_, true)) {
    return false;
  }
  return pool_->trim(height + tuning::kMaxGivenBack) != 0 && pool_->retreat() != 0;
}

bool Slab::reserve(std::uint64_t height) {
  const std::uint64_t more = height - this->height();
  const std::uint64_t end = origin_ + height;
  if (books_->bytes.fetch_add(more, std::memory_order_relaxed) + more > books_->limit ||
      !(space().commit(end) || (make_room(height) && space().commit(end)))) {
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

// The memory of the slab's height.
std::uint64_t Slab::there() const {
  return os::resident_bytes(at(0), height());
}

// After a whole iteration: what it has written is known. Where that changes from one to the next,
// the union of all would be held in the end.
void Slab::look(PageMap::Run claimed) {
  if (ends_to_look_ != 0) {
    if (--ends_to_look_ != 0) {
      // Of what is written in part another part may be written next, and both would be there.
      if (2 * there() < height()) {
        give_back_unused();
      }
      return;
    }
    attends_ = Attends::kNothing;
    written_ = there();
    along_ = 0;
    whole_ = is_whole(height(), written_);
    // A look at the process' memory is a system call: only where it may find something.
    watched_ = height() - std::min(height(), written_) >
               std::max(may_lack(written_), tuning::kMaxUnwritten / 2);
    if (books_->huge_pages != Choice::kNever && !pool_->headroom().is_short()) {
      gather(at(0), at(huge_end(books_->huge_pages, height())), claimed);
      attends_ = Attends::kGathers;
    }
  } else {
    attends_ = attends_ == Attends::kRenews ? attends_ : Attends::kNothing;
    if (os::process_bytes() <= process_had_ + tuning::kMaxUnwritten / 4) {
      return;
    }
    if (there() > written_ + along_ + tuning::kMaxUnwritten / 2) {
      give_back_unused();
      attends_ = Attends::kRenews;  // from now on
      attend(bytes_of(claimed.first) - origin_, bytes_of(claimed.count));
    }
  }
  process_had_ = watched_ ? os::process_bytes() : 0;
}

void Slab::attend(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) {
    return;
  }
  if (attends_ != Attends::kGathers) {
    const std::uint64_t there =
        bytes < tuning::kMinLooked ? bytes : os::resident_bytes(at(offset), bytes);
    if (there != 0 && (attends_ == Attends::kEmpties ? there < bytes / tuning::kSmallPart
                                                     : !is_whole(bytes, there))) {
      os::purge(at(offset), bytes);
    }
    return;
  }
  // A huge page of which several blocks have parts comes with the one that finds all others free.
  const std::uint64_t end =
      std::min(round_up(offset + bytes, os::kHugePage), huge_end(books_->huge_pages, height()));
  gather(at(round_down(offset, os::kHugePage)), at(end),
         {granules_in(origin_ + offset), granules_of(bytes)});
}

// Makes huge pages of what was written as a whole between two borders of them and is free now, or
// claimed just now. In all of them no more than may_lack() allows may not be there.
void Slab::gather(char* from, char* to, PageMap::Run claimed) {
  if (from >= to || reinterpret_cast<std::uint64_t>(from) % os::kHugePage != 0) {
    return;
  }
  char* first = nullptr;  // of those that lie side by side
  std::uint64_t run = 0;
  const auto note = [&](char* unit, std::uint64_t has) {
    const Granules granule = space().granule_of(unit);
    // With MEMOMALLOC_HUGEPAGES=always what lies above the slab lacks nothing.
    const std::uint64_t end = static_cast<std::uint64_t>(unit - at(0)) + os::kHugePage;
    const std::uint64_t above =
        books_->huge_pages == Choice::kAlways ? end - std::min(end, height()) : 0;
    const std::uint64_t lacks = os::kHugePage - std::min(os::kHugePage, has + above);
    const std::atomic_ref<std::uint16_t> made = space().note(granule);
    if (made.load(std::memory_order_relaxed) == 0 && along_ + lacks <= may_lack(written_) &&
        lacks <= os::kHugePage / tuning::kSmallPart &&
        is_free(granule, granule + granules_in(os::kHugePage), claimed) && os::none_is_lent(unit)) {
      along_ += lacks;
      made.store(1, std::memory_order_relaxed);
      gathered_ = std::max(gathered_, end);
      first = run == 0 ? unit : first;
      run += os::kHugePage;
    } else if (run != 0) {
      make_huge(first, run);
      run = 0;
    }
  };
  char* unit = from;
  os::Residents memory(from, static_cast<std::uint64_t>(to - from));
  std::uint64_t has = 0;
  for (os::Residents::Stretch stretch; memory.next(stretch);) {
    while (stretch.bytes != 0) {
      const std::uint64_t part =
          std::min(stretch.bytes, os::kHugePage - static_cast<std::uint64_t>(stretch.start - unit));
      has += stretch.there ? part : 0;
      stretch.start += part;
      stretch.bytes -= part;
      if (stretch.start == unit + os::kHugePage) {
        note(unit, has);
        unit = stretch.start;
        has = 0;
      }
    }
  }
  if (run != 0) {
    make_huge(first, run);
  }
}

// Of [first, end) nothing is in use, `but` for what no one has written yet.
bool Slab::is_free(Granules first, Granules end, PageMap::Run but) const {
  const auto free = [&](Granules from, Granules to) {
    return from >= to || space().pages.look(from, to - from).granted;
  };
  return free(first, std::min(end, but.first)) && free(std::max(first, but.end()), end);
}

bool Slab::make_huge(char* from, std::uint64_t bytes) {
  return os::purge(from, bytes) && os::advise_huge(from, bytes, true) && os::populate(from, bytes);
}

// What comes from `from` bytes on is another plan's, of which nothing is known.
void Slab::forget_huge(std::uint64_t from) {
  from = round_up(from, os::kHugePage);
  if (gathered_ > from) {
    os::advise_huge(at(from), gathered_ - from, false);
    for (; gathered_ > from; gathered_ -= os::kHugePage) {
      space()
          .note(space().granule_of(at(gathered_ - os::kHugePage)))
          .store(0, std::memory_order_relaxed);
    }
  }
}

void Slab::forget_look() {
  attends_ = Attends::kNothing;
  ends_to_look_ = 0;
  whole_ = watched_ = false;
}

// First of all the places are at the slab's start: a child that is forked meanwhile by another
// thread may give a slab of no height memory again.
bool Slab::give_back() {
  forget_huge(0);
  forget_look();
  origin_ = sweeps_ = 0;
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

void Slab::evade() {
  const std::uint64_t height = this->height();
  const std::uint64_t above = round_up(origin_ + tallest(), os::kHugePage);
  if (!space().commit(above + height)) {
    return;
  }
  if (books_->verbose >= 2) {
    Line() << "lane " << SlabWord::lane(word())
           << ": the slab goes on above blocks that stay in it";
  }
  give_back_unused();
  forget_huge(0);
  forget_look();
  ends_to_look_ = kEndsToLook;
  attends_ = Attends::kEmpties;
  origin_ = above;
  sweeps_ = tuning::kMaxUnroll;
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
  for (PageMap::Run run = pages.next_free(first, end); run.found();
       run = pages.next_free(run.end(), end)) {
    pages.claim(run.first, run.count);
  }
}

bool Slab::keep_out_of_free(Granules first, Granules end) {
  const std::uint64_t word = this->word();
  const std::uint64_t nobodys = SlabWord::nobodys(word);
  if (!SlabWord::is_free(word) || !change(word, nobodys)) {
    return false;
  }
  keep_out(first, end);
  return change(nobodys, word & ~SlabWord::kTorn);
}

void Slab::trim(std::uint64_t height) {
  const std::uint64_t before = this->height();
  if (before <= height) {
    return;
  }
  MEMO_DCHECK(books_->bytes.load(std::memory_order_relaxed) >= before - height);
  height_.store(height, std::memory_order_relaxed);
  books_->bytes.fetch_sub(before - height, std::memory_order_relaxed);
  give_back_between(origin_ + height, origin_ + memory_end(books_->huge_pages, before));
  forget_huge(height);
}

void Slab::give_back_unused() const {
  give_back_between(0, origin_ + memory_end(books_->huge_pages, height()));
}

// Gives back the memory of [from, to) that no block uses; bytes from the space's start, whole
// granules. Where committed memory is counted, a last huge page may end behind it.
void Slab::give_back_between(std::uint64_t from, std::uint64_t to) const {
  const PageMap& pages = space().pages;
  const Granules end = granules_in(std::min(to, space().committed_bytes()));
  for (PageMap::Run run = pages.next_free(granules_in(from), end); run.found();
       run = pages.next_free(run.end(), end)) {
    space().give_back(run.first, run.count);
  }
}

bool Slab::valid() const {
  const std::uint64_t end = std::min(origin_ + tallest(), space().committed_bytes());
  return height() <= tallest() && origin_ + height() <= space().bytes() &&
         space().pages.valid(granules_in(end));
}

}  // namespace memo
