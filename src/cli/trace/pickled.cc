// What is asked of a pickle's values when they are read; see unpickle.h. Cold.
#include "src/cli/trace/unpickle.h"

namespace memo::cli {

// A search in depth with a stack of its own.
std::optional<Pickled::Index> Pickled::circle() const {
  enum : std::uint8_t { kNew, kOpen, kDone };
  std::vector<std::uint8_t> state(values_.size(), kNew);
  struct Place {
    Index value;
    std::size_t next;
  };
  std::vector<Place> path{{root_, 0}};
  while (!path.empty()) {
    Place& top = path.back();
    state[top.value] = kOpen;
    if (!holds(top.value) || top.next == items(top.value).size()) {
      state[top.value] = kDone;
      path.pop_back();
      continue;
    }
    const Index child = items(top.value)[top.next++];
    if (state[child] == kOpen) {
      return child;
    }
    if (state[child] == kNew) {
      path.push_back({child, 0});
    }
  }
  return std::nullopt;
}

std::optional<Pickled::Index> Pickled::find(Index dictionary, std::string_view name) const {
  if (kind(dictionary) != Kind::kDictionary) {
    return std::nullopt;
  }
  const std::vector<Index>& all = items(dictionary);
  for (std::size_t i = all.size(); i >= 2; i -= 2) {
    if (kind(all[i - 2]) == Kind::kText && text(all[i - 2]) == name) {
      return all[i - 1];
    }
  }
  return std::nullopt;
}

}  // namespace memo::cli
