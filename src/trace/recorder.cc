#include "src/trace/recorder.h"

#include "src/base/check.h"
#include "src/base/tuning.h"

namespace memo {
namespace {

constexpr std::uint32_t kIds = 1U << 16;

std::atomic<std::uint64_t> clock_of_all_lanes{1};

}  // namespace

bool Recorder::prepare(std::uint32_t capacity, bool stamped) {
  stamped_ = stamped;
  if (log_.reserve(capacity) && addresses_.reserve(capacity) && live_.reserve(capacity) &&
      (!stamped || (stamps_.reserve(capacity) && marks_.reserve(tuning::kMaxLog / 16))) &&
      grow(1)) {
    capacity_ = room_ = capacity;
    return true;
  }
  log_.release();
  addresses_.release();
  live_.release();
  stamps_.release();
  marks_.release();
  return false;
}

bool Recorder::grow(std::uint32_t count) {
  return log_.grow(count) && addresses_.grow(count) && live_.grow(count) &&
         (!stamped_ || stamps_.grow(count));
}

std::uint32_t Recorder::note(const Allocation& allocation, std::uint64_t live) {
  const std::uint32_t index = count();
  if (index >= room_) {
    return kNotRecorded;
  }
  if (!grow(index + 1)) {
    room_ = index;
    return kNotRecorded;
  }
  log_.data()[index] = allocation;
  addresses_.data()[index] = 0;
  live_.data()[index] = live;
  if (stamped_) {
    stamps_.data()[index] = {clock_of_all_lanes.fetch_add(1, std::memory_order_relaxed), 0, 0};
  }
  count_.store(index + 1, std::memory_order_release);
  return index;
}

// A long log would lie idle while a plan is served, or for good.
void Recorder::restart() {
  const bool is_long = count() >= tuning::kMaxLog / 8;
  count_.store(0, std::memory_order_release);
  room_ = capacity_;
  if (is_long) {
    log_.give_back();
    addresses_.give_back();
    live_.give_back();
  }
}

void Recorder::mark() {
  if (stamped_ && marks_.grow(mark_count_ + 1)) {
    marks_.data()[mark_count_] = {clock_of_all_lanes.fetch_add(1, std::memory_order_relaxed),
                                  mark_count_};
    ++mark_count_;
  }
}

void Recorder::bind(std::uint32_t index, std::uint64_t address, LiveTable& table, Granules slot) {
  MEMO_DCHECK(index < count());
  std::atomic_ref(addresses_.data()[index]).store(address, std::memory_order_relaxed);
  table.insert(slot, TaggedPointer(address, static_cast<std::uint16_t>(index % kIds)));
}

// The id gives the index modulo 2^16; the newest allocation of that id at this address is the one.
// kNotRecorded if there is none.
std::uint32_t Recorder::index_of(TaggedPointer pointer) const {
  const std::uint32_t now = count();
  for (std::uint64_t index = now - 1 - ((now - 1 - pointer.id()) % kIds); index < now;
       index -= kIds) {
    if (std::atomic_ref(addresses_.data()[index]).load(std::memory_order_relaxed) ==
        pointer.address()) {
      return static_cast<std::uint32_t>(index);
    }
  }
  return kNotRecorded;
}

void Recorder::cut(std::uint64_t address, LiveTable& table, Granules slot) {
  TaggedPointer pointer;
  if (!table.claim(slot, address, pointer)) {
    return;
  }
  if (const std::uint32_t index = index_of(pointer); index != kNotRecorded) {
    std::atomic_ref(log_.data()[index].cut).store(true, std::memory_order_relaxed);
  }
  table.insert(slot, pointer);
}

void Recorder::free(std::uint64_t address, LiveTable& table, Granules slot,
                    std::uint32_t freeing_lane) {
  TaggedPointer pointer;
  const std::uint32_t index =
      table.claim(slot, address, pointer) ? index_of(pointer) : kNotRecorded;
  if (index == kNotRecorded) {
    return;
  }
  std::atomic_ref(log_.data()[index].death).store(count(), std::memory_order_relaxed);
  if (stamped_) {
    stamps_.data()[index].died = clock_of_all_lanes.fetch_add(1, std::memory_order_relaxed);
    stamps_.data()[index].freeing_lane = freeing_lane;
  }
}

}  // namespace memo
