// How a plan is found by the calls that begin it: the key of a few calls, and the
// name of a plan that lies in a folder. Hot to follow a stream by; no memory.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

// Parts of the names of files: calls whose sizes and alignments make a key, and keys of a plan (of
// its first calls, and of those a quarter, a half and three quarters through it, for a program that
// begins elsewhere).
inline constexpr std::uint32_t kKeyCalls = 8;
inline constexpr std::uint32_t kPlanKeys = 4;

// The last few calls of a stream, and the key of their sizes and alignments, in order. Each call
// costs two multiplications, however many the key is of.
class CallWindow {
 public:
  void add(std::uint64_t size, std::uint32_t alignment_log2) {
    const std::uint32_t at = count_ % kKeyCalls;
    sum_ = (sum_ - word(at) * kOldest) * kFactor;
    sizes_[at] = size;
    alignments_[at] = static_cast<std::uint8_t>(alignment_log2);
    ++count_;
    sum_ += word(at);
  }
  // There were enough calls for a key.
  [[nodiscard]] bool full() const { return count_ >= kKeyCalls; }
  // All that were ever added.
  [[nodiscard]] std::uint64_t calls() const { return count_; }
  // Of the last calls; never 0, which is no key.
  [[nodiscard]] std::uint64_t key() const {
    const std::uint64_t mixed = mix(sum_);
    return mixed != 0 ? mixed : 1;
  }
  [[nodiscard]] std::uint32_t known() const {
    return full() ? kKeyCalls : static_cast<std::uint32_t>(count_);
  }
  // The size of the i-th of the known() last calls, oldest first; bytes.
  [[nodiscard]] std::uint64_t size(std::uint32_t i) const {
    return sizes_[(count_ - known() + i) % kKeyCalls];
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;  // odd, 2^64 over the golden ratio
  static constexpr std::uint64_t kOldest = [] {
    std::uint64_t power = 1;
    for (std::uint32_t i = 0; i + 1 < kKeyCalls; ++i) {
      power *= kFactor;
    }
    return power;
  }();
  // Source: the finalizer of MurmurHash3, in which each bit of the result depends on each bit.
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 33U)) * 0xff51afd7ed558ccd;
    x = (x ^ (x >> 33U)) * 0xc4ceb9fe1a85ec53;
    return x ^ (x >> 33U);
  }
  // 0 where there was no call yet.
  [[nodiscard]] std::uint64_t word(std::uint32_t at) const {
    return sizes_[at] == 0 ? 0 : mix(sizes_[at] + (std::uint64_t{alignments_[at]} << 56U));
  }

  std::uint64_t sizes_[kKeyCalls] = {};
  std::uint8_t alignments_[kKeyCalls] = {};  // log2
  std::uint64_t sum_ = 0;
  std::uint64_t count_ = 0;
};

// What the name of a plan in a folder says.
struct PlanName {
  // Of all its calls; the same wherever in the loop the plan begins.
  std::uint64_t stream = 0;
  // Of the calls from its first step on, and from a few places further in the loop, since a program
  // may begin anywhere. Of a parametric plan, whose sizes are no fact about it: the first is of the
  // calls that began the process that made it, the second of its program. 0: none.
  std::uint64_t keys[kPlanKeys] = {};
  friend bool operator==(const PlanName&, const PlanName&) = default;
};

inline bool share_a_key(const PlanName& a, const PlanName& b) {
  for (const std::uint64_t key : a.keys) {
    for (const std::uint64_t other : b.keys) {
      if (key == other && key != 0) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace memo
