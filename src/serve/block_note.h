// What the pool notes of each of its blocks, in the word that its space keeps for it. Hot.
#pragma once

#include <cstdint>

#include "src/base/tuning.h"

namespace memo {

class BlockNote {
 public:
  // For lane `owner`; it is to hold zeros if `zero`.
  BlockNote(std::uint16_t owner, bool zero)
      : word_(static_cast<std::uint16_t>(owner | (zero ? kZero : 0U))) {}
  explicit BlockNote(std::uint16_t word) : word_(word) {}
  [[nodiscard]] std::uint16_t word() const { return word_; }

  [[nodiscard]] std::uint16_t owner() const { return word_ & kOwner; }
  [[nodiscard]] bool zero() const { return (word_ & kZero) != 0; }

 private:
  static constexpr std::uint16_t kZero = 1U << 15U;
  static constexpr std::uint16_t kOwner = kZero - 1;
  static_assert(tuning::kMaxLanes <= kOwner);

  std::uint16_t word_;
};

}  // namespace memo
