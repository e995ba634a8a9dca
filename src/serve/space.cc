#include "src/serve/space.h"

#include "src/base/bits.h"
#include "src/base/os.h"

namespace memo {
namespace {

// Large enough that system calls do not count, small enough that a limit on data is not met early.
constexpr std::uint64_t kCommitStep = 64ULL << 20;

struct RecordLayout {
  std::uint64_t state;   // a byte for each granule
  std::uint64_t length;  // four
  std::uint64_t live;    // eight
  std::uint64_t owner;   // two
  std::uint64_t end;
};

RecordLayout layout(std::uint64_t bytes) {
  const std::uint64_t granules = bytes / kGranule;
  const std::uint64_t page = os::page_size();
  const std::uint64_t length = round_up(granules, page);
  const std::uint64_t live = length + round_up(granules * sizeof(std::uint32_t), page);
  const std::uint64_t owner = live + round_up(granules * sizeof(std::uint64_t), page);
  return {0, length, live, owner, owner + round_up(granules * sizeof(std::uint16_t), page)};
}

// Commits the records of the granules [from, to).
bool commit_array(char* array, std::uint64_t each, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t start = round_down(from * each, os::page_size());
  const std::uint64_t end = round_up(to * each, os::page_size());
  return os::commit(array + start, end - start);
}

}  // namespace

std::uint64_t Space::record_bytes(std::uint64_t bytes) {
  return layout(bytes).end;
}

void Space::open(char* base, char* records, std::uint64_t bytes) {
  base_ = base;
  records_ = records;
  bytes_ = bytes;
  const RecordLayout at = layout(bytes);
  pages = PageMap(reinterpret_cast<std::uint8_t*>(records + at.state),
                  reinterpret_cast<std::uint32_t*>(records + at.length));
  owners_ = reinterpret_cast<std::uint16_t*>(records + at.owner);
  live = LiveTable(reinterpret_cast<std::uint64_t*>(records + at.live));
}

bool Space::commit(std::uint64_t bytes) {
  const std::uint64_t committed = committed_.load(std::memory_order_relaxed);
  if (bytes + kGranule <= committed) {
    return true;
  }
  if (bytes >= bytes_) {
    return false;
  }
  std::uint64_t target = round_up(bytes + kGranule, kCommitStep);
  target = target < bytes_ ? target : bytes_;
  const RecordLayout at = layout(bytes_);
  const std::uint64_t from = committed / kGranule;
  const std::uint64_t to = target / kGranule;
  if (!commit_array(records_ + at.state, 1, from, to) ||
      !commit_array(records_ + at.length, sizeof(std::uint32_t), from, to) ||
      !commit_array(records_ + at.live, sizeof(std::uint64_t), from, to) ||
      !commit_array(records_ + at.owner, sizeof(std::uint16_t), from, to) ||
      !os::commit(base_ + committed, target - committed)) {
    return false;
  }
  committed_.store(target, std::memory_order_release);
  return true;
}

bool Space::plausible(const void* pointer) const {
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(pointer) - base_);
  return offset % kGranule == 0 && offset < committed_.load(std::memory_order_acquire);
}

}  // namespace memo
