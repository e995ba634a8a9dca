// Best-first search over downsets (sets of nodes closed under predecessors) with the peak as the
// cost: states under the present limit are gone through depth first, the others wait. When none is
// left, the limit rises to the lowest waiting peak, which by then is a lower bound. Each set is
// visited once.
#include "scheduler/downsets.h"

#include <algorithm>
#include <queue>

#include "scheduler/closure.h"
#include "scheduler/linearize.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

using Word = std::uint64_t;
using StateId = std::uint32_t;

// The sets seen so far, as bit sets in one array, with an index by content.
class StateTable {
 public:
  explicit StateTable(std::int32_t nodes) : words_((static_cast<std::size_t>(nodes) + 63) / 64) {
    slots_.assign(1024, kFree);
  }

  std::size_t size() const { return states_; }
  std::size_t bytes() const {
    return bits_.capacity() * sizeof(Word) + slots_.size() * sizeof(StateId);
  }
  const Word* operator[](StateId id) const { return bits_.data() + id * words_; }
  std::size_t words() const { return words_; }

  // Adds the set if it is new. Answers whether it was; its id is size() - 1 then.
  bool insert(const std::vector<Word>& set) {
    if (states_ * 2 >= slots_.size()) {
      grow();
    }
    std::size_t slot = slot_of(set.data());
    while (slots_[slot] != kFree) {
      if (std::equal(set.begin(), set.end(), (*this)[slots_[slot]])) {
        return false;
      }
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = static_cast<StateId>(states_++);
    bits_.insert(bits_.end(), set.begin(), set.end());
    return true;
  }

 private:
  static constexpr StateId kFree = ~StateId{0};

  std::size_t slot_of(const Word* set) const {
    Word hash = 0;
    for (std::size_t i = 0; i < words_; ++i) {
      hash = (hash ^ set[i]) * 0x9E3779B97F4A7C15U;  // Fibonacci hashing, Knuth 6.4
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash) & (slots_.size() - 1);
  }
  void grow() {
    slots_.assign(slots_.size() * 2, kFree);
    for (StateId id = 0; id < states_; ++id) {
      std::size_t slot = slot_of((*this)[id]);
      while (slots_[slot] != kFree) {
        slot = (slot + 1) & (slots_.size() - 1);
      }
      slots_[slot] = id;
    }
  }

  std::size_t words_;
  std::size_t states_ = 0;
  std::vector<Word> bits_;
  std::vector<StateId> slots_;  // open addressing, at most half full
};

// A move that has not been tried: `node` after the set `from`, which takes `peak` bytes.
struct Move {
  Bytes peak;
  StateId from;
  NodeId node;
};
struct HigherPeak {
  bool operator()(const Move& a, const Move& b) const { return a.peak > b.peak; }
};

class DownsetSearch {
 public:
  DownsetSearch(const Problem& problem, Incumbent& incumbent, const DownsetLimits& limits,
                std::string_view by)
      : problem_(problem),
        incumbent_(incumbent),
        limits_(limits),
        by_(by),
        runner_(problem),
        closure_(problem, limits.deadline),
        table_(problem.nodes()),
        set_(table_.words()) {}

  bool run() {
    limit_ = std::max(incumbent_.bound(), runner_->level());
    path_.clear();
    enter(kRoot);
    while (!found_ && !incumbent_.closed()) {
      if (open_.empty() && !raise_limit()) {
        return true;
      }
      if (limits_.deadline.passed() || bytes() > limits_.bytes) {
        return false;
      }
      const Move move = open_.back();
      open_.pop_back();
      if (move.from != standing_) {
        load(move.from);
      }
      standing_ = kRoot;
      path_.assign(1, move.node);
      runner_.run(move.node);
      enter(move.from);
    }
    return true;
  }

 private:
  std::size_t bytes() const {
    return table_.bytes() + moves_.capacity() * sizeof(Step) +
           (open_.capacity() + waiting_.size()) * sizeof(Move);
  }

  // How a state was reached: these nodes of path_nodes_ after the state `from`.
  struct Step {
    StateId from;
    std::uint32_t begin;
    std::uint32_t length;
  };
  static constexpr StateId kRoot = ~StateId{0};

  Bytes ceiling() const { return std::min(limits_.ceiling, incumbent_.peak()); }

  // Takes the lowest waiting moves. False if there are none below the ceiling or the incumbent,
  // which is optimal then.
  bool raise_limit() {
    if (waiting_.empty() || waiting_.top().peak >= ceiling()) {
      incumbent_.raise_bound(ceiling());
      return false;
    }
    limit_ = std::max(limit_, waiting_.top().peak);
    incumbent_.raise_bound(limit_);
    while (!waiting_.empty() && waiting_.top().peak <= limit_) {
      open_.push_back(waiting_.top());
      waiting_.pop();
    }
    return true;
  }

  // Closes the state in the runner, which path_ has led to from `from`; if it is new, lists its
  // moves.
  void enter(StateId from) {
    if (from != kRoot) {
      std::copy_n(table_[from], table_.words(), set_.begin());
    }
    closure_.close(runner_, limit_, path_);
    for (const NodeId n : path_) {
      set_[static_cast<std::size_t>(n) / 64] |= Word{1} << (static_cast<std::size_t>(n) % 64);
    }
    if (!table_.insert(set_)) {
      return;
    }
    const auto id = static_cast<StateId>(table_.size() - 1);
    moves_.push_back({from, static_cast<std::uint32_t>(path_nodes_.size()),
                      static_cast<std::uint32_t>(path_.size())});
    path_nodes_.insert(path_nodes_.end(), path_.begin(), path_.end());
    if (runner_.ready().empty()) {
      finish(id);
      return;
    }
    list_moves(id);
    standing_ = id;
  }

  void list_moves(StateId id) {
    fresh_.clear();
    for (const NodeId n : runner_.ready()) {
      const Move move{runner_->while_running(n), id, n};
      if (move.peak > limit_) {
        if (move.peak < ceiling()) {
          waiting_.push(move);
        }
      } else {
        fresh_.emplace_back(runner_->change(n), move);
      }
    }
    // The last one is tried first: the smallest growth, then the place in the graph's own order.
    std::stable_sort(fresh_.begin(), fresh_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second.node > b.second.node;
    });
    for (const auto& [change, move] : fresh_) {
      open_.push_back(move);
    }
  }

  void load(StateId id) {
    runner_.reset();
    std::vector<StateId> chain;
    for (StateId at = id; at != kRoot; at = moves_[at].from) {
      chain.push_back(at);
    }
    for (std::size_t i = chain.size(); i-- > 0;) {
      for_path(chain[i], [&](NodeId n) { runner_.run(n); });
    }
  }

  template <typename Visit>
  void for_path(StateId id, const Visit& visit) const {
    const Step& step = moves_[id];
    for (std::uint32_t i = 0; i < step.length; ++i) {
      visit(path_nodes_[step.begin + i]);
    }
  }

  void finish(StateId id) {
    Order order;
    for (StateId at = id; at != kRoot; at = moves_[at].from) {
      Order part;
      for_path(at, [&](NodeId n) { part.push_back(n); });
      order.insert(order.end(), part.rbegin(), part.rend());
    }
    std::reverse(order.begin(), order.end());
    incumbent_.offer(order, peak_of(problem_, order), by_);
    incumbent_.raise_bound(limit_);
    found_ = true;
  }

  const Problem& problem_;
  Incumbent& incumbent_;
  const DownsetLimits& limits_;
  std::string_view by_;
  ReadyRunner runner_;
  Closure closure_;
  StateTable table_;
  std::vector<Step> moves_;  // per state
  std::vector<NodeId> path_nodes_;
  std::vector<Move> open_;  // under the limit; a stack
  std::priority_queue<Move, std::vector<Move>, HigherPeak> waiting_;
  std::vector<Word> set_;  // the state being entered
  std::vector<NodeId> path_;
  std::vector<std::pair<Bytes, Move>> fresh_;
  Bytes limit_ = 0;
  StateId standing_ = kRoot;  // the state that the runner is in; kRoot: in none
  bool found_ = false;
};

}  // namespace

bool search_downsets(const Problem& problem, Incumbent& incumbent, const DownsetLimits& limits,
                     std::string_view by) {
  return DownsetSearch(problem, incumbent, limits, by).run();
}

void run_downsets(Search& search) {
  Problem linear = search.problem;
  linearize_trees(linear);
  search_downsets(linear, search.incumbent, {search.deadline}, "downsets");
}

}  // namespace schedule
