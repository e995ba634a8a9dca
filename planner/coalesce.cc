// The joined items as a binary forest, and the tables that find what fits. Cold.
#include "planner/coalesce.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "planner/skyline.h"

namespace dsa {
namespace {

constexpr std::int32_t kNone = -1;

class Forest {
 public:
  explicit Forest(const Model& model) {
    blocks_.reserve(2 * model.items.size());
    for (const Item& item : model.items) {
      blocks_.push_back({item.size, {item.lower, item.upper}});
    }
    // The greatest first: the larger two sizes, the less likely they are equal by accident.
    for (const ItemId id : by_size(model)) {
      insert(id);
    }
  }

  // The blocks that are part of no other.
  std::vector<std::int32_t> roots() const {
    std::vector<std::int32_t> result;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (!blocks_[i].joined) {
        result.push_back(static_cast<std::int32_t>(i));
      }
    }
    return result;
  }

  Buffer buffer(std::int32_t index) const {
    const Block& block = at(index);
    return {.lower = block.span.lower, .upper = block.span.upper, .size = block.size};
  }

  // Sets the offsets of all items of the block.
  void place(std::int32_t root, Offset root_offset, Offsets& offsets) const {
    std::vector<std::pair<std::int32_t, Offset>> left{{root, root_offset}};
    while (!left.empty()) {
      const auto [index, offset] = left.back();
      left.pop_back();
      const Block& block = at(index);
      if (block.first == kNone) {
        offsets[static_cast<std::size_t>(index)] = offset;
        continue;
      }
      left.emplace_back(block.first, offset);
      const bool stacked = at(block.first).size < block.size;
      left.emplace_back(block.second, stacked ? offset + at(block.first).size : offset);
    }
  }

 private:
  struct Block {
    Bytes size;
    Span span;
    std::int32_t first = kNone;   // the lower or earlier part
    std::int32_t second = kNone;  // what is on top of it, or follows it
    bool joined = false;          // it is part of another
  };
  // One block of each key is enough to be found.
  using Key = std::pair<Section, Bytes>;
  struct Hash {
    std::size_t operator()(const Key& key) const {
      auto mixed = static_cast<std::uint64_t>(key.second) * 0x9e3779b97f4a7c15;
      mixed ^= (mixed >> 32) ^ static_cast<std::uint64_t>(key.first);
      mixed *= 0xd6e8feb86659fd93;
      return mixed ^ (mixed >> 32);
    }
  };
  using Table = std::unordered_map<Key, std::int32_t, Hash>;

  const Block& at(std::int32_t index) const { return blocks_[static_cast<std::size_t>(index)]; }
  Block& at(std::int32_t index) { return blocks_[static_cast<std::size_t>(index)]; }
  Key span_of(const Block& block) const { return {block.span.lower, block.span.upper}; }
  Key start_of(const Block& block) const { return {block.span.lower, block.size}; }
  Key end_of(const Block& block) const { return {block.span.upper, block.size}; }

  static std::int32_t find(const Table& table, const Key& key) {
    const auto found = table.find(key);
    return found == table.end() ? kNone : found->second;
  }

  std::int32_t join(std::int32_t first, std::int32_t second, Bytes size, const Span& span) {
    at(first).joined = at(second).joined = true;
    blocks_.push_back({size, span, first, second});
    return static_cast<std::int32_t>(blocks_.size()) - 1;
  }

  // Enters the block in the tables, or what comes of it.
  void insert(std::int32_t index) {
    for (;;) {
      const Block block = at(index);
      if (const auto twin = find(by_span_, span_of(block)); twin != kNone) {
        remove(twin);
        index = join(twin, index, at(twin).size + block.size, block.span);
      } else if (const auto before = find(by_end_, start_of(block)); before != kNone) {
        remove(before);
        index = join(before, index, block.size, {at(before).span.lower, block.span.upper});
      } else if (const auto after = find(by_start_, end_of(block)); after != kNone) {
        remove(after);
        index = join(index, after, block.size, {block.span.lower, at(after).span.upper});
      } else {
        break;
      }
    }
    by_span_.emplace(span_of(at(index)), index);
    by_start_.emplace(start_of(at(index)), index);
    by_end_.emplace(end_of(at(index)), index);
  }

  void remove(std::int32_t index) {
    const auto erase = [index](Table& table, const Key& key) {
      if (const auto found = table.find(key); found != table.end() && found->second == index) {
        table.erase(found);
      }
    };
    erase(by_span_, span_of(at(index)));
    erase(by_start_, start_of(at(index)));
    erase(by_end_, end_of(at(index)));
  }

  std::vector<Block> blocks_;  // the model's items, then what is joined of them
  Table by_span_;
  Table by_start_;
  Table by_end_;
};

}  // namespace

Found coalesce(const Model& model, const Budget& budget) {
  if (model.has_gaps || model.has_alignment || model.has_fixed) {
    return {.reason = "gaps, alignments and fixed offsets do not join"};
  }
  const Forest forest(model);
  const std::vector<std::int32_t> roots = forest.roots();
  Problem problem;
  for (const std::int32_t root : roots) {
    problem.buffers.push_back(forest.buffer(root));
  }
  const Model joined(problem);
  const auto packed = Skyline(joined).pass(ranks_of(by_area(joined)), budget);
  if (!packed) {
    return {.reason = kOutOfTime};
  }
  Offsets offsets(model.items.size());
  for (std::size_t i = 0; i < roots.size(); ++i) {
    forest.place(roots[i], (*packed)[i], offsets);
  }
  return {.offsets = std::move(offsets)};
}

}  // namespace dsa
