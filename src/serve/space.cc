#include "src/serve/space.h"

#include <algorithm>
#include <new>

#include "src/base/bits.h"
#include "src/base/os.h"
#include "src/base/tuning.h"
#include "src/base/units.h"
#include "src/base/whole_pages.h"

namespace memo {
namespace {

// Where each array begins, in bytes; a page lies between any two, and around them all.
struct RecordLayout {
  std::uint64_t state;   // a byte for each granule
  std::uint64_t length;  // four
  std::uint64_t live;    // eight
  std::uint64_t note;    // two
  std::uint64_t tag;     // four, and
  std::uint64_t node;    // sixteen, of an index, which makes them usable itself
  std::uint64_t end;
};

RecordLayout layout(std::uint64_t bytes) {
  const Granules granules = granules_in(bytes);
  std::uint64_t end = os::page_size();
  const auto place = [&end](std::uint64_t size) {
    const std::uint64_t start = end;
    end = round_up(end + size, os::page_size()) + os::page_size();
    return start;
  };
  RecordLayout at{};
  at.state = place(granules.count());
  at.length = place(granules.count() * sizeof(std::uint32_t));
  at.live = place(granules.count() * sizeof(std::uint64_t));
  at.note = place(granules.count() * sizeof(std::uint16_t));
  at.tag = place(granules.count() * sizeof(FreeIndex::Tag));
  at.node = place(FreeIndex::node_bytes(granules));
  at.end = end;
  return at;
}

// Commits the records of the granules [from, to).
bool commit_array(char* array, std::uint64_t each, Granules from, Granules to, os::Lock lock) {
  const std::uint64_t start = round_down(from.count() * each, os::page_size());
  const std::uint64_t end = round_up(to.count() * each, os::page_size());
  return os::commit(array + start, end - start, lock);
}

}  // namespace

std::uint64_t Space::record_bytes(std::uint64_t bytes) {
  return layout(bytes).end;
}

void Space::open(char* base, char* records, std::uint64_t bytes, bool bare) {
  base_ = base;
  records_ = records;
  bytes_ = bytes;
  bare_ = bare;
  const RecordLayout at = layout(bytes);
  pages = PageMap(reinterpret_cast<std::uint8_t*>(records + at.state),
                  reinterpret_cast<std::uint32_t*>(records + at.length));
  notes_ = reinterpret_cast<std::uint16_t*>(records + at.note);
  live = LiveTable(reinterpret_cast<std::uint64_t*>(records + at.live));
}

void Space::index(FreeIndex& index) {
  const RecordLayout at = layout(bytes_);
  indexed_ = true;
  index.open(pages, granules_in(bytes_), reinterpret_cast<FreeIndex::Tag*>(records_ + at.tag),
             reinterpret_cast<FreeIndex::Node*>(records_ + at.node));
}

bool Space::commit(std::uint64_t bytes) {
  const std::uint64_t committed = committed_.load(std::memory_order_relaxed);
  // First of all: whatever a stored plan claims, what follows does not overflow.
  const std::uint64_t end = std::min(bytes_, end_.load(std::memory_order_relaxed));
  if (bytes >= bytes_) {
    return false;
  }
  if (bytes + kGranule <= committed) {
    return true;
  }
  if (bytes + kGranule > end) {
    return false;
  }
  const std::uint64_t page = std::max(kGranule, os::page_size());
  const os::Locking locking = os::locking(records_);
  const std::uint64_t least = round_up(bytes + kGranule, page);
  const std::uint64_t ample = round_up(
      bytes + kGranule + std::max(bytes / tuning::kCommitShare, tuning::kStepBytes), os::kHugePage);
  for (std::uint64_t i = 0; locking.reserved && i < neighbours_; ++i) {
    first_neighbour_[i].unlock();
  }
  // What a program has locked has memory at once, so it is no more than what is asked for.
  const bool sparing = sparing_ || locking.future != os::Lock::kNo || locking.reserved;
  return (!sparing && commit_until(std::min(ample, end), os::Lock::kNo)) ||
         commit_until(std::min(least, end), locking.future);
}

// What was reserved is no part of the memory that the program has locked.
void Space::unlock() const {
  const std::uint64_t committed = committed_.load(std::memory_order_relaxed);
  os::unlock(base_ + committed, bytes_ - committed);
  os::unlock(records_, record_bytes(bytes_));
}

// Commits all up to `target`, whole pages; `lock`: in memory from now on.
bool Space::commit_until(std::uint64_t target, os::Lock lock) {
  const std::uint64_t committed = committed_.load(std::memory_order_relaxed);
  const RecordLayout at = layout(bytes_);
  const Granules from = granules_in(committed);
  const Granules to = granules_in(target);
  if (!commit_array(records_ + at.state, 1, from, to, lock) ||
      !commit_array(records_ + at.length, sizeof(std::uint32_t), from, to, lock) ||
      !commit_array(records_ + at.live, sizeof(std::uint64_t), from, to, lock) ||
      !commit_array(records_ + at.note, sizeof(std::uint16_t), from, to, lock) ||
      (indexed_ && !commit_array(records_ + at.tag, sizeof(FreeIndex::Tag), from, to, lock)) ||
      (!bare_ && !os::commit(base_ + committed, target - committed, lock))) {
    return false;
  }
  if (!bare_) {
    os::place_on_nodes(base_ + committed, target - committed, nodes_);
    os::keep_whole(base_ + committed, target - committed);
  }
  committed_.store(target, std::memory_order_release);
  return true;
}

std::uint64_t Space::retreat(Granules first) {
  const std::uint64_t committed = committed_bytes();
  const std::uint64_t kept = first == Granules{0} ? 0 : bytes_of(first + Granules{1});
  const std::uint64_t target = round_up(kept, std::max(kGranule, os::page_size()));
  if (target >= committed) {
    return 0;
  }
  committed_.store(target, std::memory_order_release);
  // What is free and clean has no record but zeros, or what nobody reads. Another thread may still
  // look there: the records stay readable, and nothing is written.
  const RecordLayout at = layout(bytes_);
  const auto purge_array = [&](std::uint64_t array, std::uint64_t each) {
    const os::WholePages whole(records_ + array + granules_in(target).count() * each,
                               granules_in(committed - target).count() * each);
    if (whole.any()) {
      os::purge(whole.first, whole.bytes());
    }
  };
  purge_array(at.state, 1);
  purge_array(at.length, sizeof(std::uint32_t));
  purge_array(at.live, sizeof(std::uint64_t));
  return os::decommit(base_ + target, committed - target) ? committed - target : 0;
}

bool Space::give_back_whole(Granules first, Granules count, Granules& given) {
  const PageMap::Claim is = pages.look(first, count);
  if (!is.granted || !os::purge(address(first), bytes_of(count))) {
    return false;
  }
  pages.mark_clean(first, count);
  given += is.dirty;
  return true;
}

Granules Space::give_back(Granules first, Granules count) {
  Granules given;
  if (give_back_whole(first, count, given)) {
    return given;
  }
  for (const Granules end = first + count; count > tuning::kPiece && first < end;
       first += tuning::kPiece) {
    give_back_whole(first, std::min(tuning::kPiece, end - first), given);
  }
  return given;
}

Granules Space::free_lazily(Granules from, Granules end) const {
  const Granules to = std::min(end, from + granules_in(tuning::kMaxGivenBack));
  pages.each_free(from, to, [&](PageMap::Run run) {
    os::free_lazily(address(run.first), bytes_of(run.count));
  });
  return to == end ? kNone : to;
}

namespace {

// The whole huge pages of a free run; none: there are none. A border within one would split it.
PageMap::Run huge_pages_of(PageMap::Run run) {
  const Granules first = round_up(run.first, kHugePage);
  return {first, sub_sat(round_down(run.end(), kHugePage), first)};
}

}  // namespace

// As many as a call deals with: each is one more mapping, which takes fork() its time as well.
bool Space::wipe_free_on_fork() {
  // What could not be undone after another fork may be in use by now.
  if (bare_ || (wiped_until_ != Granules{0} && !os::copy_on_fork(base_, committed_bytes()))) {
    return false;
  }
  wiped_until_ = Granules{0};
  const Granules end = granules_in(committed_bytes());
  PageMap::Run run = pages.next_free(Granules{0}, end);
  for (std::uint32_t done = 0; run.found() && done < tuning::kCallWork;
       run = pages.next_free(run.end(), end)) {
    if (const PageMap::Run huge = huge_pages_of(run); huge.found()) {
      wiped_until_ = huge.end();  // first: a refusal may have done some of it
      os::wipe_on_fork(address(huge.first), bytes_of(huge.count));
      ++done;
    }
  }
  return wiped_until_ != Granules{0};
}

// Not where blocks are in use: the program may have advised the same for its own. What was freed
// meanwhile is copied already. A filter may allow the one advice and not the other: new pages have
// neither.
void Space::copy_on_fork() {
  bool all = true;
  pages.each_free(Granules{0}, wiped_until_, [&](PageMap::Run run) {
    const PageMap::Run huge = huge_pages_of(run);
    void* const start = address(huge.first);
    const std::uint64_t bytes = bytes_of(huge.count);
    all = (bytes == 0 || os::copy_on_fork(start, bytes) || os::renew(start, bytes)) && all;
  });
  if (all) {
    wiped_until_ = Granules{0};
  }
}

bool Space::plausible(const void* pointer) const {
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(pointer) - base_);
  return offset % kGranule == 0 && offset < committed_.load(std::memory_order_acquire);
}

bool Region::reserve(Space* spaces, std::uint64_t pools, std::uint64_t count, std::uint64_t most,
                     std::uint64_t least, bool bare) {
  for (std::uint64_t space = most; space >= least; space /= 2) {
    const std::uint64_t record = Space::record_bytes(space);
    const std::uint64_t apart = count * space / tuning::kApartShare;
    auto* base = static_cast<char*>(os::reserve(count * space, tuning::kMaxAlignment, apart));
    auto* records = base == nullptr
                        ? nullptr
                        : static_cast<char*>(os::reserve(count * record, os::page_size(), apart));
    if (records == nullptr) {
      if (base != nullptr) {
        os::unmap(base, count * space);
      }
      continue;
    }
    const bool sparing = os::counts_commitments();
    for (std::uint64_t i = 0; i < count; ++i) {
      new (spaces + i) Space;
      if (sparing) {
        spaces[i].be_sparing();
      }
      spaces[i].open(base + i * space, records + i * record, space, bare);
      spaces[i].join(spaces, count);
    }
    os::name_mapping(base, pools * space, "memomalloc pool");
    os::name_mapping(base + pools * space, (count - pools) * space, "memomalloc slab");
    os::name_mapping(records, count * record, "memomalloc tables");
    spaces_ = spaces;
    tables_ = records;
    count_ = count;
    shift_ = log2_floor(space);
    return true;
  }
  return false;
}

void Region::publish() {
  base_.store(reinterpret_cast<std::uint64_t>(spaces_->base()), std::memory_order_release);
  bytes_.store(count_ * spaces_->bytes(), std::memory_order_release);
}

std::array<os::Reserved, 2> Region::reserved() const {
  const std::uint64_t space = spaces_->bytes();
  return {
      os::Reserved{base(), count_ * space},
      os::Reserved{reinterpret_cast<std::uint64_t>(tables_), count_ * Space::record_bytes(space)}};
}

}  // namespace memo
