// The slabs of a process, and which of them a lane gets. Hot; any thread.
//
// There are some more than threads can run at once. Of those that wait for a processor the others
// have their blocks from the pool, in which what one frees serves the next: each further slab would
// hold a whole plan's memory for no thread that runs.
#pragma once

#include <cstdint>

#include "src/base/check.h"
#include "src/serve/slab.h"

namespace memo {

// A lane that wants a slab, and what for.
struct SlabWish {
  std::uint32_t lane = 0;
  std::uint64_t plan = 0;    // generation
  std::uint64_t height = 0;  // bytes
  [[nodiscard]] std::uint64_t word() const { return SlabWord::held(lane, plan); }
};

class Slabs : public SlabBooks {
 public:
  // `count` slabs, which are open and outlive this. Once.
  void open(Slab* slabs, std::uint32_t count) {
    slabs_ = slabs;
    count_ = count;
  }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] Slab& at(std::uint32_t number) const {
    MEMO_DCHECK(number < count_);
    return slabs_[number];
  }

  // The slab that is the lane's from now on, or nullptr: all are in use. In this order:
  //
  //   the lane holds it         also with blocks in it
  //   free, and was the lane's  with that plan, or empty
  //   free and empty            with that plan, else the least that is high enough, or the highest
  //   held, and empty           if it was not used for kIdle; `steal(slab, word)` takes it away
  //   free                      the plan's places lie above the blocks that are in it
  //
  // steal(): true if the slab was held by `word` and is empty yet, and its word is the wish's now.
  template <typename Steal>
  Slab* take(const SlabWish& wish, Nanos now, Steal&& steal) const {
    if (Slab* mine = take_own(wish); mine != nullptr) {
      return mine;
    }
    if (Slab* empty = take_free(wish, true); empty != nullptr) {
      return empty;
    }
    const auto is_idle = [now](const Slab& slab, std::uint64_t word) {
      return !SlabWord::is_free(word) && slab.unused_for(tuning::kIdle, now);
    };
    std::uint64_t word = 0;
    if (Slab* idle = best(wish, word, true, is_idle); idle != nullptr && steal(*idle, word)) {
      return idle;
    }
    return take_free(wish, false);
  }
  // Those that nobody holds, and that have not been used for so long, have no memory from now on
  // but for their blocks'.
  void give_back_free(Nanos unused, Nanos now) const;
  // In a forked child, whose lane is `mine`: what other lanes held is free.
  void orphan(std::uint32_t mine) const;
  // In a forked child, where nobody is in the middle of a call: the books hold what the slabs have.
  void count_bytes();
  // True if heights, page maps and books agree, and no lane holds two. No other thread may be at
  // work.
  [[nodiscard]] bool valid() const;

 private:
  [[nodiscard]] Slab* take_own(const SlabWish& wish) const;
  [[nodiscard]] Slab* take_free(const SlabWish& wish, bool empty) const;
  template <typename May>
  Slab* best(const SlabWish& wish, std::uint64_t& its_word, bool empty, May&& may) const;

  Slab* slabs_ = nullptr;
  std::uint32_t count_ = 0;
};

// Of the slabs that the wish `may` get the one that fits it best, nullptr if there is none. What is
// looked at as a whole, for blocks in it, is looked at last.
template <typename May>
Slab* Slabs::best(const SlabWish& wish, std::uint64_t& its_word, bool empty, May&& may) const {
  Slab* found = nullptr;
  std::uint64_t most = 0;
  for (std::uint32_t i = 0; i < count_; ++i) {
    Slab& slab = slabs_[i];
    const std::uint64_t word = slab.word();
    if (!may(slab, word)) {
      continue;
    }
    const std::uint64_t height = slab.height();
    const bool fits = height >= wish.height;
    const bool planned = SlabWord::plan(word) == wish.plan;
    const bool better = found == nullptr || (planned && SlabWord::plan(its_word) != wish.plan) ||
                        (fits ? most < wish.height || height < most : height > most);
    const bool worse = found != nullptr && !planned && SlabWord::plan(its_word) == wish.plan;
    if (better && !worse && (!empty || is_empty(slab.space()))) {
      found = &slab;
      its_word = word;
      most = height;
    }
  }
  return found;
}

}  // namespace memo
