// Free blocks of the next allocator that one thread keeps for its next requests of the same sizes. Hot; one thread.
//
// In lists by size, the latest first, as glibc's own caches are. Links are held as glibc's safe linking has them (2.32,
// malloc/malloc.c): a link that a stray write has changed is most likely seen before it is followed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/message.h"
#include "src/base/tuning.h"

namespace memo {

class KeptBlocks {
 public:
  static constexpr std::size_t kAlignment = 64;  // bytes, of each block
  enum class Answer {
    kKept,
    kNotWanted,  // it stays the caller's
    kTwice,      // it is kept already
    kFull,       // it will be kept once others are dropped
  };

  // `foreign`: what the next allocator writes behind the first word of a block that is freed to it, so that it notices a
  // second free; 0: nothing that is known.
  explicit KeptBlocks(std::uint64_t foreign) : foreign_(foreign) {}
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;

  // A block for at least `bytes` that is kept no more; nullptr: there is none.
  void* take(std::size_t bytes) {
    const std::size_t list = list_for(bytes);
    void* block = pop(list);
    // One of glibc's has up to 16 bytes more than it must: what is left over of a larger one is too little for another.
    return block != nullptr ? block : pop(list + 1);
  }

  // There was none, and the program has got `block` instead, of `usable` bytes: one more of this size is kept from now on.
  void want(std::size_t usable) {
    List* list = list_of(usable);
    if (list != nullptr && list->wanted < tuning::kMaxKeptBlocks) {
      ++list->wanted;
    }
  }

  // The program frees `block`, aligned to kAlignment, of `usable` bytes.
  Answer keep(void* block, std::size_t usable) {
    List* list = list_of(usable);
    if (list == nullptr) {
      return Answer::kNotWanted;
    }
    auto* link = static_cast<Link*>(block);
    // What the program wrote there may be the same by chance.
    if (link->mark == mark() && contains(*list, link)) {
      return Answer::kTwice;
    }
    if (list->count >= list->wanted || (link->mark == foreign_ && foreign_ != 0)) {
      return Answer::kNotWanted;
    }
    if (bytes_ + usable > tuning::kMaxKeptBytes) {
      return Answer::kFull;
    }
    link->hidden = hidden(link, list->first);
    link->mark = mark();
    list->first = link;
    ++list->count;
    bytes_ += size_of(*list);
    return Answer::kKept;
  }

  // A block that is kept no more: of another size each time, so that sizes which are not asked for any more have none in
  // the end. There is one.
  void* drop() {
    do {
      hand_ = (hand_ + 1) % kLists;
    } while (lists_[hand_].first == nullptr);
    return pop(hand_);
  }

  // Calls give(block) for each, and keeps none of them.
  template <typename Give>
  void give_back(Give&& give) {
    for (std::size_t list = 0; list < kLists; ++list) {
      while (void* block = pop(list)) {
        give(block);
      }
    }
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  // glibc's blocks on all 64-bit systems: 8 bytes, and 16 more for each list.
  static constexpr std::size_t kStep = 16;
  static constexpr std::size_t kLeast = 8;
  static constexpr std::size_t kLists = tuning::kMaxKept / kStep + 1;

  struct Link {
    std::uint64_t hidden;  // the next one, see hidden()
    std::uint64_t mark;    // of who keeps it
  };
  struct List {
    Link* first = nullptr;
    std::uint16_t count = 0;
    std::uint16_t wanted = 0;  // at most so many are kept
  };

  [[nodiscard]] std::uint64_t mark() const { return reinterpret_cast<std::uint64_t>(this); }

  static std::size_t list_for(std::size_t bytes) {
    return bytes <= kLeast ? 0 : (bytes - kLeast + kStep - 1) / kStep;
  }
  List* list_of(std::size_t usable) {
    const std::size_t list = usable < sizeof(Link) + kLeast ? kLists : (usable - kLeast) / kStep;
    return list < kLists ? &lists_[list] : nullptr;
  }
  std::size_t size_of(const List& list) const {
    return kLeast + kStep * static_cast<std::size_t>(&list - lists_);
  }

  static std::uint64_t hidden(const Link* at, const Link* next) {
    return reinterpret_cast<std::uint64_t>(at) >> 12 ^ reinterpret_cast<std::uint64_t>(next);
  }
  static Link* next(const Link* at) {
    const std::uint64_t address = at->hidden ^ reinterpret_cast<std::uint64_t>(at) >> 12;
    if (address % kAlignment != 0) [[unlikely]] {
      fail("a freed block was written to: valgrind, without this library, tells where");
    }
    return reinterpret_cast<Link*>(address);
  }

  static bool contains(const List& list, const Link* wanted) {
    for (const Link* at = list.first; at != nullptr; at = next(at)) {
      if (at == wanted) {
        return true;
      }
    }
    return false;
  }

  void* pop(std::size_t number) {
    if (number >= kLists || lists_[number].first == nullptr) {
      return nullptr;
    }
    List& list = lists_[number];
    Link* block = list.first;
    list.first = next(block);
    --list.count;
    bytes_ -= size_of(list);
    block->mark = 0;
    return block;
  }

  List lists_[kLists] = {};
  std::size_t bytes_ = 0;
  std::size_t hand_ = 0;  // the list that was dropped from last
  std::uint64_t foreign_;
};

}  // namespace memo
