#include "preload/huge_pages.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>

#include "preload/process.h"
#include "preload/reports.h"
#include "src/base/huge_page_rules.h"
#include "src/base/os.h"
#include "src/base/own_pages.h"
#include "src/base/proc_file.h"
#include "src/base/tuning.h"
#include "src/serve/gathering.h"

namespace memo {
namespace {

constexpr std::size_t kHeapParts = 16;

// In turns of the background thread, while somebody is served.
constinit std::uint64_t turns = 0;
constinit std::uint64_t due = 0;        // 0: nobody has been served yet
constinit std::uint64_t held_most = 0;  // bytes of the pool in use, at any look

const Pool& pool() {
  return g_process.engine.lanes.shared().pool;
}

bool may_gather() {
  return anyone_serves() && !pool().headroom().is_short();
}

// What may have changed in the meantime is asked each time.
bool rest() {
  return os::rest(tuning::kGatherRest) && may_gather() && os::process_gathers();
}

// One look at some memory after the other. False: not to go on.
class Look {
 public:
  bool at(std::uint64_t start, std::uint64_t end) {
    return gathering_.gather(start, end, [](const void* page) { return os::is_own(page); }, rest);
  }
  // A slab is used as a whole again and again, whatever of it is free just now.
  bool at_slab(const Space& space) {
    const auto base = reinterpret_cast<std::uint64_t>(space.base());
    return at(base, base + space.committed_bytes());
  }
  // What is free may be given back next, and the kernel takes back a huge page only as a whole.
  bool at_pool(const Space& space) {
    const auto base = reinterpret_cast<std::uint64_t>(space.base());
    const auto fits = [&](const void* page) {
      return space.pages.states().all_used(space.granule_of(page), granules_in(os::kHugePage)) &&
             os::is_own(page);
    };
    return gathering_.gather(base, base + space.committed_bytes(), fits, rest);
  }

 private:
  Gathering gathering_;
};

struct Range {
  std::uint64_t start = 0;  // addresses
  std::uint64_t end = 0;
};

// Where the heap lies, at most so many parts of it:
// 55d0c8a3b000-55d0cf01a000 rw-p 00000000 00:00 0          [heap]
// More than one where the program has set rights or advice for a part.
std::span<const Range> heap(std::span<Range> parts) {
  os::LinesOf<128> maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string_view line; count < parts.size() && maps.next(line);) {
    Range part;
    const char* const first = line.begin();
    const char* const last = line.end();
    const auto dash = std::from_chars(first, last, part.start, 16);
    if (line.ends_with("[heap]") && dash.ptr != last &&
        std::from_chars(dash.ptr + 1, last, part.end, 16).ec == std::errc()) {
      parts[count++] = part;
    }
  }
  return parts.first(count);
}

}  // namespace

bool gathering_is_due() {
  const Engine& engine = g_process.engine;
  if (g_process.observes || !engine.lanes.opened() ||
      g_process.options.HUGEPAGES == Choice::kNever || g_process.options.SHARE == Share::kWeights ||
      !may_gather()) {
    return false;
  }
  due = turns == 0 ? tuning::kFirstGathering : due;
  ++turns;
  const std::uint64_t held = pool().live_bytes();
  if (held >= held_most + std::max(tuning::kWorthHugePages, held_most / tuning::kGatherAgain)) {
    held_most = held;
    due = std::min(due, turns + tuning::kFirstGathering);
  }
  if (turns < due) {
    return false;
  }
  held_most = std::max(held_most, held);
  due = 2 * turns;
  return true;
}

void gather_huge_pages(const RecursionGuard&) {
  if (!os::machine_gathers() || !os::process_gathers()) {
    return;
  }
  Range parts[kHeapParts];
  const std::span<const Range> small_blocks = heap(parts);
  Look look;
  bool goes_on = look.at_pool(pool().space());
  for (std::size_t i = 0; i < small_blocks.size() && goes_on; ++i) {
    goes_on = look.at(small_blocks[i].start, small_blocks[i].end);
  }
  const Shared& shared = g_process.engine.lanes.shared();
  for (std::uint32_t i = 0; i < shared.lanes_taken() && goes_on; ++i) {
    goes_on = look.at_slab(shared.lanes[i].slab_space());
  }
}

void forget_gathering() {
  turns = due = held_most = 0;
}

}  // namespace memo
