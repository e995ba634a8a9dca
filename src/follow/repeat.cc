// See repeat.h. Hot.
#include "src/follow/repeat.h"

#include <algorithm>
#include <iterator>

#include "src/base/tuning.h"

namespace memo {
namespace {

// An odd multiplier whose powers mix well; context = sum of token[i] * kBase^(age of i).
constexpr std::uint32_t kBase = 0x9E3779B1U;

constexpr std::uint32_t power(std::uint32_t base, std::uint32_t exponent) {
  std::uint32_t result = 1;
  for (std::uint32_t i = 0; i < exponent; ++i) {
    result *= base;
  }
  return result;
}

constexpr std::uint32_t kOldest = power(kBase, tuning::kRepeatContext);

// Whole histories that looks may go over at once, after a quiet time.
constexpr std::uint32_t kSavedLooks = 4;

std::uint32_t hash(std::uint64_t size, std::uint8_t alignment_log2) {
  const std::uint64_t mixed = (size * 64 + alignment_log2) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::uint32_t>(mixed >> 32);
}

}  // namespace

void Repeat::start(GrowingArray<std::uint32_t>* history, std::uint32_t capacity) {
  *this = Repeat{};
  history_ = history;
  mask_ = capacity - 1;
}

bool Repeat::add(std::uint64_t size, std::uint8_t alignment_log2) {
  if (count_ == kMaxTokens || !history_->grow(std::min(count_, mask_) + 1)) {
    count_ = context_ = shift_ = matched_ = next_look_ = 0;
    std::fill(std::begin(latest_), std::end(latest_), 0U);
  }
  const std::uint32_t now = hash(size, alignment_log2);
  const std::uint32_t index = count_++;
  context_ = context_ * kBase + now;
  if (index >= tuning::kRepeatContext) {
    context_ -= token(index - tuning::kRepeatContext) * kOldest;
  }
  token(index) = now;
  if (shift_ != 0 && token(index - shift_) == now) {
    ++matched_;
  } else {
    shift_ = 0;
    matched_ = 0;
    propose();
  }
  look_back();
  if (count_ >= tuning::kRepeatContext) {
    latest_[context_ % kSlots] = count_;
  }
  return worth_a_look();
}

void Repeat::propose() {
  const std::uint32_t earlier = count_ >= tuning::kRepeatContext ? latest_[context_ % kSlots] : 0;
  if (earlier == 0 || count_ - earlier > mask_ - tuning::kRepeatContext) {
    return;
  }
  for (std::uint32_t age = 1; age <= tuning::kRepeatContext; ++age) {
    if (token(count_ - age) != token(earlier - age)) {
      return;
    }
  }
  shift_ = count_ - earlier;
  matched_ = tuning::kRepeatContext;
  next_look_ = 0;
}

void Repeat::look_back() {
  for (std::uint32_t i = 0; i < tuning::kLookBack && shift_ != 0; ++i) {
    const std::uint32_t needed = matched_ + 1 + shift_;  // tokens, from the latest back
    if (needed > count_ || needed > mask_ + 1 ||
        token(count_ - 1 - matched_) != token(count_ - needed)) {
      return;
    }
    ++matched_;
  }
}

bool Repeat::worth_a_look() {
  earned_ = std::min<std::uint32_t>(earned_ + 4 * tuning::kCallWork, kSavedLooks * (mask_ + 1));
  const std::uint32_t least = std::max(shifts_to_try() * shift_, required_);
  if (shift_ == 0 || matched_ < least || matched_ < next_look_) {
    return false;
  }
  const std::uint32_t tokens = std::min(count_, mask_ + 1);
  if (earned_ < tokens) {
    return false;
  }
  earned_ -= tokens;
  next_look_ = matched_ + std::max(std::max(shift_ / 2, matched_ / tuning::kNextLookShare),
                                   tuning::kRepeatContext);
  if (matched_ < 2 * shift_) {
    next_look_ = std::min(next_look_, 2 * shift_);  // from then on it may be sure
  }
  return true;
}

void Repeat::lock_broke(std::uint32_t run) {
  required_ = run >= tuning::kConvincingRun
                  ? 0
                  : std::min(std::max(required_, 2 * run), tuning::kConvincingRun);
}

}  // namespace memo
