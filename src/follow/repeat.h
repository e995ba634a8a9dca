// Notices, call by call, that a stream of large allocations has begun to repeat, so that the cold
// door (src/learn) is opened only when a look is worth while. Hot: constant time, no allocation, no
// lock; one thread's stream each. It sees sizes and alignments only; lifetimes and the verdict are
// src/learn's.
//
//   tokens  a b c d e f g h | a b c d e f g h | a b c ...
//                             ^ the last kRepeatContext tokens were seen `shift` tokens ago:
//                               follow that shift while it matches, look when it has matched twice
//                               over
#pragma once

#include <cstdint>

#include "src/base/growing_array.h"
#include "src/base/tuning.h"

namespace memo {

class Repeat {
 public:
  // After so many tokens the stream begins again: a count that went round would leave the
  // context's hash wrong for good.
  static constexpr std::uint32_t kMaxTokens = 1U << 26;

  // `history` holds the last `capacity` tokens (a power of two, at least 4 * kRepeatContext) and is
  // the caller's, who has grown it by one at least; it need not be zeroed. Where the system refuses
  // more, the stream begins again in what there is. Periods longer than capacity -
  // kRepeatContext are not seen.
  void start(GrowingArray<std::uint32_t>* history, std::uint32_t capacity);

  // The thread has made one more large allocation. True when a look is worth while: the stream has
  // matched itself for two periods, a long one for one, and for at least `required()` calls, and
  // grown since the last look; and the calls since earlier looks have earned the history's length,
  // over which a look goes.
  bool add(std::uint64_t size, std::uint8_t alignment_log2);

  // A schedule that was learned from this stream has served `run` calls and then lost its way. The
  // next one must show twice as much, unless the run was long enough to have been right.
  // Doubling halves the wrong locks at each attempt.
  void lock_broke(std::uint32_t run);

  std::uint32_t shift() const { return shift_; }      // calls; 0: no candidate
  std::uint32_t matched() const { return matched_; }  // calls that equal the one `shift()` earlier
  // Over how many shifts a loop of that length must match to be worth a look.
  std::uint32_t shifts_to_try() const { return shift_ >= tuning::kLongLoop ? 1 : 2; }
  // The latest calls may be enough to believe in, and not only to try.
  bool sure() const { return matched_ >= tuning::kMinMatchedCalls; }
  // Something comes again and again, be it an iteration or only a part of one.
  bool looping() const { return shift_ != 0 && matched_ >= 2 * shift_ + tuning::kRepeatContext; }
  std::uint32_t required() const { return required_; }  // calls, for find_period's min_run

 private:
  void propose();
  void look_back();
  bool worth_a_look();
  std::uint32_t& token(std::uint32_t index) { return history_->data()[index & mask_]; }

  // Of the table of contexts. A longer loop is seen at some of its calls, an iteration later.
  static constexpr std::uint32_t kSlots = 1024;

  GrowingArray<std::uint32_t>* history_ = nullptr;
  std::uint32_t mask_ = 0;
  std::uint32_t count_ = 0;    // tokens so far
  std::uint32_t context_ = 0;  // rolling hash of the last kRepeatContext tokens
  std::uint32_t shift_ = 0;
  std::uint32_t matched_ = 0;
  std::uint32_t next_look_ = 0;  // matched_ at which the next look is due
  std::uint32_t required_ = 0;
  std::uint32_t earned_ = 0;  // tokens that looks may go over
  // By context: count_ after its latest occurrence, 0 for none.
  std::uint32_t latest_[kSlots] = {};
};

}  // namespace memo
