// The recorder of one lane: an append-only log of its thread's large allocations, into which the
// frees, from any thread, are entered. Hot. Bounded: when the log is full it stops and says so.
//
// Only the owner appends; any thread may enter a death. Indices and deaths count this log's
// allocations.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "src/base/growing_array.h"
#include "src/trace/event.h"
#include "src/trace/live_table.h"

namespace memo {

inline constexpr std::uint32_t kNotRecorded = UINT32_MAX;

// The order of allocations and frees across all lanes, kept only for a trace file.
struct Stamps {
  std::uint64_t born = 0;
  std::uint64_t died = 0;  // 0: never
  std::uint32_t freeing_lane = 0;
};

// An iteration that the host has told, kept only for a trace file.
struct Mark {
  std::uint64_t stamp = 0;
  std::uint64_t number = 0;
};

class Recorder {
 public:
  // Reserves addresses for `capacity` allocations, with stamps if `stamped`, and takes memory for
  // the first of them; false where the system refuses. More is taken as the log grows; where that
  // is refused, the log is full until it begins anew.
  bool prepare(std::uint32_t capacity, bool stamped);
  [[nodiscard]] bool full() const { return count() >= room_; }

  // Appends an allocation of the owner, before which `live` bytes were alive in its arena; its
  // index, or kNotRecorded when full.
  std::uint32_t note(const Allocation& allocation, std::uint64_t live);
  // Ties the allocation `index` to the block at `address`, whose live-table slot is `slot`.
  void bind(std::uint32_t index, std::uint64_t address, LiveTable& table, Granules slot);
  // The block at `address`, if it is one of this log, has lost much of its size. Any thread.
  void cut(std::uint64_t address, LiveTable& table, Granules slot);
  // Enters the death of the block at `address`, if it is one of this log.
  void free(std::uint64_t address, LiveTable& table, Granules slot, std::uint32_t freeing_lane);

  // The host begins an iteration; kept if stamps are.
  void mark();

  // Forgets everything; blocks of before are unknown from now on.
  void restart();

  [[nodiscard]] std::uint32_t count() const { return count_.load(std::memory_order_acquire); }
  [[nodiscard]] std::span<const Allocation> log() const { return {log_.data(), count()}; }
  [[nodiscard]] std::span<const std::uint64_t> live() const { return {live_.data(), count()}; }
  [[nodiscard]] const Stamps* stamps() const { return stamps_.data(); }
  [[nodiscard]] std::span<const Mark> marks() const { return {marks_.data(), mark_count_}; }

 private:
  bool grow(std::uint32_t count);
  [[nodiscard]] std::uint32_t index_of(TaggedPointer pointer) const;

  GrowingArray<Allocation> log_;
  GrowingArray<std::uint64_t> addresses_;  // of each allocation's block, to tell equal ids apart
  GrowingArray<std::uint64_t> live_;       // bytes alive before each allocation
  GrowingArray<Stamps> stamps_;
  GrowingArray<Mark> marks_;
  bool stamped_ = false;
  std::uint32_t mark_count_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t room_ = 0;  // as much, unless memory for it was refused
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace memo
