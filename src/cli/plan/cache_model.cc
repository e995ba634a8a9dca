#include "src/cli/plan/cache_model.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <tuple>
#include <vector>

namespace memo::cli {
namespace {

// What is in the cache, as pieces of memory that were touched at once, the latest in front.
class Cache {
 public:
  explicit Cache(dsa::Bytes capacity) : capacity_(capacity) {}

  // Touches [from, to) in ascending order; how much of it was not there.
  dsa::Bytes touch(dsa::Offset from, dsa::Offset to) {
    // What is as long as the cache pushes its own beginning out.
    const dsa::Bytes step = std::max<dsa::Bytes>(capacity_ / kParts, 1);
    dsa::Bytes missed = 0;
    for (dsa::Offset at = from; at < to; at += std::min(step, to - at)) {
      missed += touch_part(at, std::min(to, at + step));
    }
    return missed;
  }

 private:
  static constexpr dsa::Bytes kParts = 16;

  struct Piece {
    dsa::Offset from;
    dsa::Offset to;
  };
  using Pieces = std::list<Piece>;

  dsa::Bytes touch_part(dsa::Offset from, dsa::Offset to) {
    const dsa::Bytes found = take_out(from, to);
    put_in(pieces_.begin(), {from, to});
    while (held_ > capacity_) {
      const Piece oldest = pieces_.back();
      const dsa::Bytes kept =
          std::max<dsa::Bytes>(oldest.to - oldest.from - (held_ - capacity_), 0);
      take_out(oldest.from, oldest.to - kept);
    }
    return to - from - found;
  }

  // Takes what is there of [from, to) out of the cache; bytes.
  dsa::Bytes take_out(dsa::Offset from, dsa::Offset to) {
    dsa::Bytes found = 0;
    auto next = by_start_.upper_bound(from);
    if (next != by_start_.begin() && std::prev(next)->second->to > from) {
      --next;
    }
    while (next != by_start_.end() && next->first < to) {
      const auto place = next->second;
      const Piece piece = *place;
      next = by_start_.erase(next);
      held_ -= piece.to - piece.from;
      found += std::min(piece.to, to) - std::max(piece.from, from);
      if (piece.from < from) {
        put_in(place, {piece.from, from});
      }
      if (piece.to > to) {
        put_in(place, {to, piece.to});
      }
      pieces_.erase(place);
    }
    return found;
  }

  void put_in(Pieces::iterator before, Piece piece) {
    by_start_[piece.from] = pieces_.insert(before, piece);
    held_ += piece.to - piece.from;
  }

  dsa::Bytes capacity_;
  dsa::Bytes held_ = 0;
  Pieces pieces_;
  std::map<dsa::Offset, Pieces::iterator> by_start_;
};

// A buffer's first or last moment of a part of its life.
struct Touch {
  dsa::Time at;
  bool birth;  // an operator reads what it takes, and then writes what it gives
  std::size_t buffer;
  friend bool operator<(const Touch& a, const Touch& b) {
    return std::tie(a.at, a.birth, a.buffer) < std::tie(b.at, b.birth, b.buffer);
  }
};

std::vector<Touch> touches_of(const dsa::Problem& problem) {
  std::vector<Touch> touches;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const dsa::Buffer& buffer = problem.buffers[i];
    dsa::Time born = buffer.lower;
    const auto live_until = [&](dsa::Time end) {
      if (end > born) {
        touches.push_back({born, true, i});
        touches.push_back({end - 1, false, i});
      }
    };
    for (const dsa::Interval& gap : buffer.gaps) {
      live_until(gap.lower);
      born = gap.upper;
    }
    live_until(buffer.upper);
  }
  std::sort(touches.begin(), touches.end());
  return touches;
}

}  // namespace

CacheUse model_cache(const dsa::Problem& problem, const dsa::Plan& plan, dsa::Bytes capacity) {
  const std::vector<Touch> touches = touches_of(problem);
  Cache cache(capacity);
  CacheUse use;
  for (const bool counted : {false, true}) {
    for (const Touch& touch : touches) {
      const dsa::Offset from = plan.offsets[touch.buffer];
      const dsa::Bytes size = problem.buffers[touch.buffer].size;
      const dsa::Bytes missed = cache.touch(from, from + size);
      if (counted) {
        use.touched += size;
        use.missed += missed;
      }
    }
  }
  return use;
}

}  // namespace memo::cli
