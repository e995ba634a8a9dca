#include "src/trace/recorder.h"

#include "src/base/bits.h"
#include "src/base/os.h"

namespace memo {
namespace {

constexpr std::uint32_t kIds = 1U << 16;

std::atomic<std::uint64_t> clock_of_all_lanes{1};

}  // namespace

bool Recorder::prepare(std::uint32_t capacity, bool stamped) {
  const std::uint64_t each =
      sizeof(Allocation) + 2 * sizeof(std::uint64_t) + (stamped ? sizeof(Stamps) : 0);
  const std::uint64_t marks = stamped ? kMostMarks * sizeof(Mark) : 0;
  auto* memory = static_cast<char*>(os::map(round_up(each * capacity + marks, os::page_size())));
  if (memory == nullptr) {
    return false;
  }
  log_ = reinterpret_cast<Allocation*>(memory);
  addresses_ = reinterpret_cast<std::uint64_t*>(log_ + capacity);
  live_ = addresses_ + capacity;
  stamps_ = stamped ? reinterpret_cast<Stamps*>(live_ + capacity) : nullptr;
  marks_ = stamped ? reinterpret_cast<Mark*>(stamps_ + capacity) : nullptr;
  capacity_ = capacity;
  return true;
}

std::uint32_t Recorder::note(const Allocation& allocation, std::uint64_t live) {
  const std::uint32_t index = count();
  if (index >= capacity_) {
    return kNotRecorded;
  }
  log_[index] = allocation;
  addresses_[index] = 0;
  live_[index] = live;
  if (stamps_ != nullptr) {
    stamps_[index] = {clock_of_all_lanes.fetch_add(1, std::memory_order_relaxed), 0, 0};
  }
  count_.store(index + 1, std::memory_order_release);
  return index;
}

void Recorder::mark() {
  if (marks_ != nullptr && mark_count_ < kMostMarks) {
    marks_[mark_count_] = {clock_of_all_lanes.fetch_add(1, std::memory_order_relaxed), mark_count_};
    ++mark_count_;
  }
}

void Recorder::bind(std::uint32_t index, std::uint64_t address, LiveTable& table,
                    std::uint64_t slot) {
  std::atomic_ref(addresses_[index]).store(address, std::memory_order_relaxed);
  table.insert(slot, TaggedPointer(address, static_cast<std::uint16_t>(index % kIds)));
}

void Recorder::free(std::uint64_t address, LiveTable& table, std::uint64_t slot,
                    std::uint32_t freeing_lane) {
  TaggedPointer pointer;
  if (!table.claim(slot, address, pointer)) {
    return;
  }
  // The id gives the index modulo 2^16; the newest allocation of that id at this address is the
  // one.
  const std::uint32_t now = count();
  for (std::uint64_t index = now - 1 - ((now - 1 - pointer.id()) % kIds); index < now;
       index -= kIds) {
    if (std::atomic_ref(addresses_[index]).load(std::memory_order_relaxed) == address) {
      std::atomic_ref(log_[index].death).store(now, std::memory_order_relaxed);
      if (stamps_ != nullptr) {
        stamps_[index].died = clock_of_all_lanes.fetch_add(1, std::memory_order_relaxed);
        stamps_[index].freeing_lane = freeing_lane;
      }
      return;
    }
  }
}

}  // namespace memo
