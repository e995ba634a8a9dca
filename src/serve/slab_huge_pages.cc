// The huge pages of a slab, and what of it is written and is not (slab.h). Hot.
#include <algorithm>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/resident.h"
#include "src/base/tuning.h"
#include "src/serve/slab.h"
#include "src/serve/written.h"

namespace memo {

// Where the advice on huge pages ends in a slab of `height` bytes. By itself it covers those that
// the slab fills, or lacks little of. A slab's memory is committed in steps of many huge pages, so
// that the last one is there to be had.
std::uint64_t Slab::huge_end(std::uint64_t height) const {
  const std::uint64_t lacking = os::kHugePage / tuning::kSmallPart;
  return books_->huge_pages == Choice::kAuto ? round_down(height + lacking, os::kHugePage)
                                             : round_up(height, os::kHugePage);
}

// Where the memory of such a slab may end, its last huge page with it.
std::uint64_t Slab::memory_end(std::uint64_t height) const {
  return std::max(height, huge_end(height));
}

// The memory of the slab's height.
std::uint64_t Slab::there() const {
  return os::resident_bytes(at(0), height());
}

// Called at the end of an iteration, when its written pages are known. Where each iteration writes
// other pages, the slab would hold all of them in the end.
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
    const std::uint64_t unwritten = ahead_.look(space(), pool_->ahead());
    whole_ = is_whole(height() + unwritten, written_);
    // A look at the process' memory is a system call: only where it may find something.
    watched_ =
        sub_sat(height(), written_) > std::max(may_lack(written_), tuning::kMaxUnwritten / 2);
    if (books_->huge_pages != Choice::kNever && !pool_->headroom().is_short()) {
      gather(at(0), at(huge_end(height())), claimed);
      attends_ = Attends::kGathers;
    }
  } else {
    const bool renews = attends_ == Attends::kRenews;
    // Now and then an iteration shows whether others are written still.
    attends_ = renews && renewals_.waits() ? Attends::kRenews : Attends::kNothing;
    const std::uint64_t has = os::process_bytes();
    if (has != 0 && has <= process_had_ + tuning::kMaxUnwritten / 4) {
      process_had_ = std::min(process_had_, has);
      return;
    }
    const std::uint64_t now = there();
    if (renews) {  // no other iteration's
      written_ = std::max(written_, now);
    } else if (now > written_ + along_ + tuning::kMaxUnwritten / 2) {
      give_back_unused();
      attends_ = Attends::kRenews;
      renewals_.refused(tuning::kMaxWait);
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
    const bool renews = attends_ == Attends::kRenews;
    // A large place that is whole now may be written in part next time.
    const bool bare = renews ? bytes >= tuning::kMappedAnew || !is_whole(bytes, there)
                             : there < bytes / tuning::kSmallPart;
    if (bare && there != 0) {
      os::purge(at(offset), bytes);
    }
    if (bare && !renews) {
      take_ahead(offset, bytes);
    }
    return;
  }
  // A huge page of which several blocks have parts comes with the one that finds all others free.
  const std::uint64_t end = std::min(round_up(offset + bytes, os::kHugePage), huge_end(height()));
  gather(at(round_down(offset, os::kHugePage)), at(end),
         {granules_in(origin_ + offset), granules_of(bytes)});
}

// A place of which hardly anything has memory is claimed in a slab that was not looked at yet. The
// look does not make these huge pages again.
void Slab::take_ahead(std::uint64_t offset, std::uint64_t bytes) {
  const Headroom& headroom = pool_->headroom();
  if (books_->huge_pages == Choice::kNever || headroom.is_short() || headroom.is_tight()) {
    return;
  }
  const Granules first = granules_in(origin_ + offset);
  const std::uint64_t alive = bytes_of(pool_->held().in_memory()) + height();
  const PageMap::Run run = ahead_.take(space(), pool_->ahead(), alive, first,
                                       round_down(first + granules_in(bytes), kHugePage));
  char* const from = space().address(run.first);
  const std::uint64_t length = bytes_of(run.count);
  if (run.found() && os::advise_huge(from, length, true)) {
    for (std::uint64_t unit = 0; unit < length; unit += os::kHugePage) {
      space().note(space().granule_of(from + unit)).store(1, std::memory_order_relaxed);
    }
    gathered_ = std::max(gathered_, static_cast<std::uint64_t>(from - at(0)) + length);
  }
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
    const std::uint64_t above = books_->huge_pages == Choice::kAlways ? sub_sat(end, height()) : 0;
    const std::uint64_t lacks = sub_sat(os::kHugePage, has + above);
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

// The advice comes first: what the program has advised of parts ends with it, and all is one
// mapping again. Before Linux 6.14 a purge leaves page tables, which are then populated in small
// pages. On several NUMA nodes this thread populates nothing: that would move the pages to its
// own node. The kernel makes a huge page on the node that has most of its small pages.
void Slab::make_huge(char* from, std::uint64_t bytes) {
  if (os::advise_huge(from, bytes, true) &&
      (os::several_nodes() || (os::purge(from, bytes) && os::populate(from, bytes))) &&
      os::can_collapse()) {
    os::collapse(from, bytes);
  }
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
  ahead_.forget(pool_->ahead());
  attends_ = Attends::kNothing;
  ends_to_look_ = 0;
  whole_ = watched_ = false;
  renewals_.restart();
}

}  // namespace memo
