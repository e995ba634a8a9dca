// See slabs.h. Hot.
#include "src/serve/slabs.h"

namespace memo {

Slab* Slabs::take_own(const SlabWish& wish) const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    Slab& slab = slabs_[i];
    const std::uint64_t word = slab.word();
    if (SlabWord::lane(word) != wish.lane) {
      continue;
    }
    if (!SlabWord::is_free(word)) {
      slab.hold(wish.word());
      // Blocks that an earlier plan was left for may stay for good.
      if (SlabWord::plan(word) != wish.plan && slab.height() == 0 && !is_empty(slab.space())) {
        slab.begin_above();
      }
      return &slab;
    }
    const bool fits = SlabWord::plan(word) == wish.plan || is_empty(slab.space());
    if (fits && slab.change(word, wish.word())) {
      return &slab;
    }
  }
  return nullptr;
}

// Where another thread comes first the next best is taken, at most once for each slab.
Slab* Slabs::take_free(const SlabWish& wish, bool empty) const {
  const auto is_free = [](const Slab&, std::uint64_t word) { return SlabWord::is_free(word); };
  std::uint64_t word = 0;
  for (std::uint32_t tries = 0; tries < count_; ++tries) {
    Slab* slab = best(wish, word, empty, is_free);
    if (slab == nullptr) {
      return nullptr;
    }
    if (slab->change(word, wish.word())) {
      // The word may have come round: its lane has taken the slab again, and left a block in it.
      if (!is_empty(slab->space())) {
        slab->begin_above();
      }
      return slab;
    }
  }
  return nullptr;
}

void Slabs::give_back_free(Nanos unused, Nanos now) const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    Slab& slab = slabs_[i];
    const std::uint64_t word = slab.word();
    if (SlabWord::is_free(word) && slab.height() != 0 && slab.unused_for(unused, now) &&
        slab.change(word, SlabWord::nobodys(word))) {
      slab.give_back();
      slab.space().retreat();  // what no block lies behind is the process' no more
      slab.let_go(now);
    }
  }
}

void Slabs::orphan(std::uint32_t mine) const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const std::uint64_t word = slabs_[i].word();
    if (!SlabWord::is_free(word) && SlabWord::lane(word) != mine) {
      slabs_[i].orphan();
    }
  }
}

void Slabs::count_bytes() {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < count_; ++i) {
    sum += slabs_[i].height();
  }
  bytes.store(sum, std::memory_order_relaxed);
}

bool Slabs::valid() const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const std::uint64_t word = slabs_[i].word();
    sum += slabs_[i].height();
    for (std::uint32_t other = 0; other < i && !SlabWord::is_free(word); ++other) {
      if (!slabs_[other].is_free() &&
          SlabWord::lane(slabs_[other].word()) == SlabWord::lane(word)) {
        return false;
      }
    }
    if (!slabs_[i].valid()) {
      return false;
    }
  }
  return sum == bytes.load(std::memory_order_relaxed);
}

}  // namespace memo
