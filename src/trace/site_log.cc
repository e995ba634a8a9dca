#include "src/trace/site_log.h"

#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

constinit Site* table = nullptr;

// Of the table; a full one names fewer stacks.
constexpr std::uint32_t kSites = 4096;

// Entries that one stack may take, behind its own: the table is never so full.
constexpr std::uint32_t kProbes = 16;

}  // namespace

void open_site_log() {
  table = static_cast<Site*>(os::map(kSites * sizeof(Site)));
}

void note_site(std::uint64_t signature, const void* const* frames, int count) {
  if (table == nullptr) {
    return;
  }
  for (std::uint32_t probe = 0; probe < kProbes; ++probe) {
    Site& entry = table[(signature + probe) % kSites];
    std::uint64_t seen = __atomic_load_n(&entry.signature, __ATOMIC_RELAXED);
    if (seen == 0 && __atomic_compare_exchange_n(&entry.signature, &seen, signature, false,
                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      for (int i = 0; i < count && i < tuning::kMaxFrames; ++i) {
        entry.frames[i] = frames[i];
      }
      return;
    }
    if (seen == signature) {
      return;
    }
  }
}

const Site* sites(std::uint32_t& count) {
  count = table != nullptr ? kSites : 0;
  return table;
}

}  // namespace memo
