// The free runs of an arena by their lengths: where a block fits, and what memory to give back,
// without a walk over the page map. Hot. Nothing here changes whose a granule is
// (src/serve/page_map.h), so that all it can do wrong is to find a poor place.
//
// A run is of free granules that are all clean or all dirty; runs of one kind never touch. Runs of
// about the same length are in one list, and a bit tells which lists have any, as in the two-level
// segregated fit of Masmano et al., "TLSF: a new dynamic memory allocator for real-time systems"
// (2004), 3. The lists of the dirty runs are apart: memory that is there is taken first.
//
// Any thread tells of a block that it has freed, by defer(); one thread at a time does all else.
// Checked by valid().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/bits.h"
#include "src/serve/page_map.h"

namespace memo {

class FreeIndex {
 public:
  using Run = PageMap::Run;
  enum class Kind : std::uint8_t { kClean, kDirty };
  struct Node {
    std::uint32_t first;
    std::uint32_t count;  // 0: no run
    std::uint32_t next;   // in the list of its length, or of the nodes that are no runs; 0: none
    std::uint32_t previous : 31;
    std::uint32_t dirty : 1;
  };
  // For each granule a tag, and a node at most.
  using Tag = std::uint32_t;

  static constexpr std::uint32_t kSpare = 512;  // nodes that has_room() looks for
  static constexpr std::uint32_t kStep = 4096;  // nodes that get memory at once
  static constexpr std::uint64_t node_bytes(Granules granules) {
    return round_up(granules.count() + kSpare, kStep) * sizeof(Node);
  }
  // Zeroed arrays for so many granules, which outlive this: of tags one for each, usable up to any
  // `top`, and one more; of nodes node_bytes(), reserved, from a page's start on. Once, before any
  // other call.
  void open(const PageMap& pages, Granules granules, Tag* tags, Node* nodes) {
    pages_ = pages;
    tags_ = tags;
    nodes_ = nodes;
    most_ = static_cast<std::uint32_t>(node_bytes(granules) / sizeof(Node));
  }

  // There is memory for some hundred runs more, or the system gives it. A run for which there is
  // none is given out no more.
  [[nodiscard]] bool has_room() { return runs_ + kSpare <= room_ || grow(); }

  // The block that began at `first` was released. Any thread.
  void defer(Granules first);
  // Enters up to `most` of the blocks that were deferred, as long as it has room.
  void enter(std::uint64_t most);
  // Granules that are free, whatever their memory, or were when a block was freed: what is taken by
  // now is left out. Merges them with the runs beside them.
  void add(Granules first, Granules count);

  // A place for `count` granules at a multiple of `step` (a power of two), all of that kind: of the
  // first runs of the lengths that fit the smallest, at its low end.
  struct Place {
    Granules start;
    std::uint32_t node = 0;  // of the first run that it touches; 0: there is no place
    [[nodiscard]] bool found() const { return node != 0; }
  };
  [[nodiscard]] Place fit(Kind kind, Granules count, Granules step) const;
  // One that begins or ends in one of the longest runs of that kind, and goes on in the free ones
  // beside it: the one that has most memory where the block will be `written`, from its start on,
  // less what lies behind that, and of several such the lowest. From `top` on all is free; a place
  // that reaches beyond it has memory for half of the block.
  [[nodiscard]] Place overlap(Kind kind, Granules count, Granules written, Granules step,
                              Granules top) const;
  // What is free directly below `top`: where it begins, which is `top` where nothing is.
  [[nodiscard]] Place below(Granules top) const;
  // The run that begins at `start`, if it and those behind it reach `end`, or `top`.
  [[nodiscard]] Place behind(Granules start, Granules end, Granules top) const;
  // Granules from the place's start on that have memory, as far as its first run tells.
  [[nodiscard]] Granules there(const Place& place) const {
    const std::uint32_t start = static_cast<std::uint32_t>(place.start.count());
    const bool dirty = place.found() && nodes_[place.node].dirty != 0;
    return Granules{dirty ? std::max(end_of(place.node), start) - start : 0};
  }
  // [place.start, end) is taken.
  void take(const Place& place, Granules end);

  // Dirty runs, to be given back one after another: first those of at least `least` granules, the
  // shortest first, then the others, the longest first. A run that remains has to be added again.
  class Dirty {
   public:
    Dirty(FreeIndex& index, Granules least);
    // Takes the next one out.
    [[nodiscard]] Run take();

   private:
    FreeIndex& index_;
    std::uint32_t least_;
    std::uint32_t next_;
    bool longer_ = true;
  };

  // Runs looked at so far.
  [[nodiscard]] std::uint64_t looks() const { return looks_; }
  // True if each stretch of free granules below `top` is a run, and nothing else is. Looks at all
  // of it.
  [[nodiscard]] bool valid(Granules top) const;

 private:
  static constexpr unsigned kParts = 8;   // lists for each power of two
  static constexpr unsigned kExact = 16;  // lengths below have a list of their own
  static constexpr unsigned kLists = kExact + (31 - 4) * kParts;
  static constexpr unsigned kWords = kLists / 64 + 1;
  // Runs looked at in one list, and neighbours of one run.
  static constexpr int kMostLooks = 16;
  static constexpr int kMostBeside = 8;

  struct Lists {
    std::uint32_t heads[kLists] = {};
    std::uint64_t any[kWords] = {};

    // The first list from `list` on that has a run; kLists: none.
    [[nodiscard]] unsigned from(unsigned list) const;
    // The last one up to `list`.
    [[nodiscard]] unsigned up_to(unsigned list) const;
  };

  static unsigned list_of(std::uint32_t count);
  [[nodiscard]] std::uint32_t tag(std::uint32_t granule) const {
    return std::atomic_ref(tags_[granule]).load(std::memory_order_relaxed);
  }
  void set_tag(std::uint32_t granule, std::uint32_t value) {
    std::atomic_ref(tags_[granule]).store(value, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t end_of(std::uint32_t node) const {
    return nodes_[node].first + nodes_[node].count;
  }
  // The run that begins, or ends, at a granule; 0: none does.
  [[nodiscard]] std::uint32_t beginning(std::uint32_t first) const;
  [[nodiscard]] std::uint32_t ending(std::uint32_t end) const;
  // Free granules [first, end) around a run, some of its neighbours; `node` is the first of them.
  struct Area {
    std::uint32_t node;
    std::uint32_t first;
    std::uint32_t end;
  };
  [[nodiscard]] Area area(std::uint32_t node, std::uint32_t top) const;
  [[nodiscard]] Place at(const Area& area, std::uint32_t start, std::uint32_t count,
                         std::uint32_t written, std::int64_t& gain) const;
  void insert(std::uint32_t first, std::uint32_t count, bool dirty);
  void merge(std::uint32_t first, std::uint32_t count, bool dirty);
  void remove(std::uint32_t node);
  bool grow();

  PageMap pages_;
  Tag* tags_ = nullptr;
  Node* nodes_ = nullptr;
  std::uint32_t runs_ = 0;
  std::uint32_t used_ = 0;    // nodes ever
  std::uint32_t room_ = 0;    // nodes that have memory
  std::uint32_t most_ = 0;    // nodes that can have
  std::uint32_t unused_ = 0;  // the first of those that are no runs now
  std::uint32_t taken_ =
      0;  // of the deferred blocks those that are to be entered first; first granule + 1
  mutable std::uint64_t looks_ = 0;
  Lists lists_[2];
  alignas(64) std::atomic<std::uint32_t> deferred_{0};  // as taken_; the next one is in its tag
};

}  // namespace memo
