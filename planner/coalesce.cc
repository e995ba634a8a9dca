// Which blocks are joined first, and second thoughts about what is left over. Cold.
//
// Where one block ends and one begins, and nothing else does either, the second must take the
// first's place if no memory may be idle: such joins are certain. Of the others, the least likely
// by chance comes first: a fit of great sizes or long lives, where few others begin or end, one
// that makes a block which fits a third. What was joined wrongly stands alone in the end, since
// nothing fits it. So what is left over in a short time is parted again and joined in another
// order, and that stays if no more is left over.
#include "planner/coalesce.h"

#include <algorithm>
#include <queue>
#include <random>

#include "planner/fit_score.h"
#include "planner/real_functions.h"

namespace dsa {
namespace {

using Index = Blocks::Index;
constexpr auto kBegin = Blocks::kBegin;
constexpr auto kEnd = Blocks::kEnd;
constexpr auto kNone = Blocks::kNone;

class Joiner {
 public:
  Joiner(const Model& model, const Budget& budget)
      : blocks_(model),
        budget_(budget),
        random_(budget.seed()),
        fit_score_(blocks_),
        looked_at_(model.load.size() + 1, UINT32_MAX) {}

  Blocks run() {
    for (Section s = 0; s <= blocks_.sections(); ++s) {
      touched_.emplace_back(s, kNone);
      maybe_certain_.push_back(s);
    }
    join_all();
    reconsider();
    return std::move(blocks_);
  }

 private:
  // Set by rectangles that straight cuts took apart (bench::guillotine), and judged on others, as
  // those of fit_score.cc.
  static constexpr float kSure = 1e30F;
  static constexpr float kParted = 1e5F;        // less surprising joins than this are taken back
  static constexpr double kNoise = 8;           // e-folds between the most and least luck of a join
  static constexpr std::size_t kMaxRoots = 60;  // that are parted together
  static constexpr std::size_t kMaxSeen = 1000;
  static constexpr std::size_t kMaxParts = 300;   // that these may fall into
  static constexpr int kMaxFresh = 200;           // that a new block is compared with
  static constexpr std::ptrdiff_t kMaxEqual = 4;  // that are considered for each block
  static constexpr int kIdleRounds = 8;  // without gain, after which what is left over stays

  struct Match {
    float score;
    Index a;
    Index b;
    bool operator<(const Match& other) const { return score < other.score; }
  };

  template <typename Visit>
  void for_each(Blocks::Side side, Section section, Visit visit) const {
    for (Index i = blocks_.head(side, section); i != kNone; i = blocks_[i].next[side]) {
      visit(i);
    }
  }

  void offer(Index a, Index b) {
    float value = fit_score_(a, b);
    if (noise_ > 0) {
      value *= static_cast<float>(
          exponential(noise_ * (static_cast<double>(random_() >> 11) * 0x1p-53 - 0.5)));
    }
    matches_.push({value, a, b});
  }

  // All that fits at the section, or with the block that is new there.
  void look(Section section, Index fresh) {
    const std::uint32_t here = blocks_.count(kBegin, section) + blocks_.count(kEnd, section);
    auto& before = looked_at_[static_cast<std::size_t>(section)];
    // Matches grow more surprising as others go.
    if (fresh == kNone || here < before - before / 4) {
      before = here;
      look_at_all(section);
    } else if (blocks_[fresh].root && blocks_[fresh].span.lower == section) {
      for_some(kEnd, section, [&](Index a) { offer_if_fit(a, fresh); });
      for_some(kBegin, section, [&](Index b) { offer_if_fit(fresh, b); });
    } else if (blocks_[fresh].root && blocks_[fresh].span.upper == section) {
      for_some(kBegin, section, [&](Index b) { offer_if_fit(fresh, b); });
    }
  }

  // Where very many begin or end, not all: they are looked at again when there are fewer.
  template <typename Visit>
  void for_some(Blocks::Side side, Section section, Visit visit) const {
    int left = kMaxFresh;
    for (Index i = blocks_.head(side, section); i != kNone && left > 0;
         i = blocks_[i].next[side], --left) {
      visit(i);
    }
  }

  void offer_if_fit(Index a, Index b) {
    if (a != b && blocks_.fit(a, b)) {
      offer(a, b);
    }
  }

  void look_at_all(Section section) {
    begins_.clear();
    ends_.clear();
    for_each(kBegin, section, [this](Index b) { begins_.emplace_back(blocks_[b].size, b); });
    for_each(kEnd, section, [this](Index a) { ends_.emplace_back(blocks_[a].size, a); });
    std::sort(begins_.begin(), begins_.end());
    std::sort(ends_.begin(), ends_.end());
    auto end = ends_.begin();
    for (const auto& [size, b] : begins_) {
      while (end != ends_.end() && end->first < size) {
        ++end;
      }
      for (auto a = end; a != ends_.end() && a->first == size && a - end < kMaxEqual; ++a) {
        offer(a->second, b);
      }
    }
    for (auto& [key, b] : begins_) {
      key = blocks_[b].span.upper;
    }
    std::sort(begins_.begin(), begins_.end());
    for (auto b = begins_.begin(); b != begins_.end(); ++b) {
      for (auto c = b + 1; c != begins_.end() && c->first == b->first && c - b < kMaxEqual; ++c) {
        offer(b->second, c->second);
      }
    }
  }

  void join(Index a, Index b, float score) {
    const Section middle = blocks_[a].span.upper;
    const Index fresh = blocks_.join(a, b, score);
    const Span span = blocks_[fresh].span;
    for (const Section s : {span.lower, span.upper}) {
      maybe_certain_.push_back(s);
      touched_.emplace_back(s, fresh);
    }
    if (middle != span.upper) {
      maybe_certain_.push_back(middle);
      touched_.emplace_back(middle, fresh);
    }
  }

  // Joins what can only belong together at this section.
  bool join_certain(Section section) {
    const std::uint32_t begins = blocks_.count(kBegin, section);
    const std::uint32_t ends = blocks_.count(kEnd, section);
    const auto try_pair = [this](Index a, Index b) {
      if (!blocks_.fit(a, b)) {
        return false;
      }
      join(a, b, kSure);
      return true;
    };
    const Index begin = blocks_.head(kBegin, section);
    const Index end = blocks_.head(kEnd, section);
    return (begins == 1 && ends == 1 && try_pair(end, begin)) ||
           (begins == 2 && ends <= 1 && try_pair(begin, blocks_[begin].next[kBegin])) ||
           (ends == 2 && begins <= 1 && try_pair(end, blocks_[end].next[kEnd]));
  }

  void join_all() {
    for (std::size_t step = 0;; ++step) {
      while (!maybe_certain_.empty()) {
        const Section section = maybe_certain_.back();
        maybe_certain_.pop_back();
        join_certain(section);
      }
      for (const auto& [section, fresh] : touched_) {
        look(section, fresh);
      }
      touched_.clear();
      while (!matches_.empty() &&
             !(blocks_[matches_.top().a].root && blocks_[matches_.top().b].root)) {
        matches_.pop();
      }
      if (matches_.empty() || (step % 1024 == 1023 && budget_.expired())) {
        matches_ = {};
        return;
      }
      const Match match = matches_.top();
      matches_.pop();
      // Others may have gone, or the third.
      const float now = fit_score_(match.a, match.b);
      if (noise_ == 0 && now < 0.99F * match.score) {
        matches_.push({now, match.a, match.b});
        continue;
      }
      join(match.a, match.b, now);
    }
  }

  void reconsider() {
    noise_ = kNoise;
    for (int idle = 0; idle < kIdleRounds && blocks_.roots() > 1 && !budget_.expired();) {
      std::vector<Index> roots;
      for (Index i = 0; i < blocks_.end(); ++i) {
        if (blocks_[i].root) {
          roots.push_back(i);
        }
      }
      const auto length = [this](Index i) { return blocks_[i].span.upper - blocks_[i].span.lower; };
      std::sort(roots.begin(), roots.end(), [&](Index a, Index b) {
        return length(a) != length(b) ? length(a) < length(b) : a < b;
      });
      const std::size_t before = blocks_.roots();
      for (const Index root : roots) {
        if (budget_.expired()) {
          return;
        }
        if (root < blocks_.end() && blocks_[root].root) {
          retry(around(blocks_[root].span));
        }
      }
      idle = blocks_.roots() < before ? 0 : idle + 1;
    }
  }

  Span around(const Span& span) {
    const auto draw = [this](std::uint64_t below) {
      return static_cast<Section>(random_() % below);
    };
    const auto length = static_cast<std::uint64_t>(span.upper - span.lower);
    const std::uint64_t most = 4 + random_() % (2 * length);
    return {std::max<Section>(0, span.lower - draw(most)),
            std::min(blocks_.sections(), span.upper + draw(most))};
  }

  void part(Index index, std::vector<Index>& parted) {
    const Blocks::Block block = blocks_[index];
    if (block.first == kNone || block.score >= kParted) {
      return;
    }
    blocks_.part(index);
    parted.push_back(index);
    part(block.first, parted);
    part(block.second, parted);
  }

  // Parts what lives inside the span, and joins it again.
  void retry(const Span& span) {
    std::vector<Index> old;
    for (Section s = span.lower; s < span.upper && old.size() < kMaxSeen; ++s) {
      for_each(kBegin, s, [&](Index i) {
        if (blocks_[i].span.upper <= span.upper) {
          old.push_back(i);
        }
      });
    }
    if (old.size() < 2) {
      return;
    }
    for (std::size_t i = 0; i < kMaxRoots && old.size() > kMaxRoots; ++i) {
      std::swap(old[i], old[i + random_() % (old.size() - i)]);
    }
    old.resize(std::min(old.size(), kMaxRoots));
    const std::size_t before = blocks_.roots();
    const Index fresh = blocks_.end();
    std::vector<Index> parted;
    for (const Index i : old) {
      part(i, parted);
    }
    if (blocks_.roots() - before <= kMaxParts) {
      for (Section s = span.lower; s <= span.upper; ++s) {
        touched_.emplace_back(s, kNone);
      }
      join_all();
    }
    if (blocks_.roots() <= before && fresh < blocks_.end()) {
      return;
    }
    for (Index i = blocks_.end(); i-- > fresh;) {
      blocks_.part(i);
    }
    blocks_.drop(fresh);
    for (std::size_t i = parted.size(); i-- > 0;) {
      blocks_.rejoin(parted[i]);
    }
  }

  Blocks blocks_;
  const Budget& budget_;
  std::mt19937_64 random_;
  FitScore fit_score_;
  double noise_ = 0;
  std::vector<Section> maybe_certain_;
  std::vector<std::pair<Section, Index>> touched_;  // with the block that is new there
  std::vector<std::uint32_t> looked_at_;  // by section: how many began and ended there then
  std::priority_queue<Match> matches_;
  std::vector<std::pair<std::int64_t, Index>> begins_;  // at one section, by size, then by end
  std::vector<std::pair<Bytes, Index>> ends_;
};

}  // namespace

bool can_coalesce(const Model& model) {
  // Of the time, and of the bound.
  constexpr double kShare = 0.99;
  if (model.has_gaps || model.has_alignment || model.has_fixed || model.items.empty()) {
    return false;
  }
  const auto limit = static_cast<Bytes>(kShare * static_cast<double>(model.bound));
  const auto full = std::count_if(model.load.begin(), model.load.end(),
                                  [limit](Bytes load) { return load >= limit; });
  return static_cast<double>(full) >= kShare * static_cast<double>(model.load.size());
}

Blocks coalesce(const Model& model, const Budget& budget) {
  return Joiner(model, budget).run();
}

Problem problem_of(const Blocks& blocks) {
  Problem problem;
  for (Index i = 0; i < blocks.end(); ++i) {
    if (blocks[i].root) {
      problem.buffers.push_back(
          {.lower = blocks[i].span.lower, .upper = blocks[i].span.upper, .size = blocks[i].size});
    }
  }
  return problem;
}

Offsets take_apart(const Blocks& blocks, const Offsets& offsets) {
  std::size_t items = 0;
  Offsets result(static_cast<std::size_t>(blocks.end()));
  auto offset = offsets.begin();
  for (Index i = 0; i < blocks.end(); ++i) {
    items += blocks[i].first == kNone ? 1U : 0U;
    if (blocks[i].root) {
      blocks.place(i, *offset++, result);
    }
  }
  result.resize(items);
  return result;
}

}  // namespace dsa
