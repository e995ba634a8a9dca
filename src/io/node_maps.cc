#include "src/io/node_maps.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "src/base/proc_file.h"

namespace memo {
namespace {

std::uint64_t parse(std::string_view text, int base) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

// A line of a mapping without a file:
// 7f5c40000000 default anon=512 dirty=512 active=0 N0=256 N1=256 kernelpagesize_kB=4
void count(std::string_view line, NodeRange& range) {
  constexpr std::string_view kSize = "kernelpagesize_kB=";
  const std::size_t size_at = line.find(kSize);
  if (size_at == std::string_view::npos) {
    return;  // nothing of it has memory
  }
  const std::uint64_t page = parse(line.substr(size_at + kSize.size()), 10) << 10U;
  for (std::size_t at = line.find(" N"); at != std::string_view::npos;
       at = line.find(" N", at + 1)) {
    const std::string_view word = line.substr(at + 2, line.find(' ', at + 1) - at - 2);
    const std::size_t equals = word.find('=');
    const std::uint64_t node = parse(word, 10);
    if (equals != std::string_view::npos && node < kMaxNodes) {
      range.found.on[node] += parse(word.substr(equals + 1), 10) * page;
    }
  }
}

}  // namespace

bool read_node_maps(std::span<NodeRange> ranges, const char* path) {
  os::LinesOf<512> file(path);
  bool any = false;
  for (std::string_view line; file.next(line); any = true) {
    const std::uint64_t start = parse(line, 16);
    const auto range = std::find_if(ranges.begin(), ranges.end(), [start](const NodeRange& one) {
      return start - one.start < one.bytes;
    });
    if (range != ranges.end()) {
      const std::size_t policy = line.find(' ') + 1;
      const std::string_view word = line.substr(policy, line.find(' ', policy) - policy);
      range->by_policy = range->by_policy || word != "default";
      count(line, *range);
    }
  }
  return any;
}

}  // namespace memo
