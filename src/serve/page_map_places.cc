// Which block a pointer lies in, or lay in: for messages about misuse. Hot.
#include "src/serve/page_map.h"

#include "src/base/tuning.h"

namespace memo {

PageMap::Run PageMap::block_at(std::uint64_t granule) const {
  const std::uint64_t least = granule < tuning::kMaxLookBack ? 0 : granule - tuning::kMaxLookBack;
  for (std::uint64_t at = granule; (state(at) & kUsed) != 0; --at) {
    if ((state(at) & kStart) != 0) {
      return length_[at] > granule - at ? Run{at, length_[at]} : Run{};
    }
    if (at == least) {
      break;
    }
  }
  return {};
}

std::uint64_t PageMap::freed_length(std::uint64_t granule) const {
  return (state(granule) & kUsed) == 0 ? length_[granule] : 0;
}

}  // namespace memo
