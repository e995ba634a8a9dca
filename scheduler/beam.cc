// Beam search: the most promising few downsets of each size, all closed eagerly, until all nodes
// have run. The beams are leaves of one tree of steps; a runner goes from leaf to leaf by taking
// back and running the nodes between them, which are few, so that the work does not grow with the
// graph.
#include <algorithm>
#include <random>
#include <tuple>
#include <unordered_set>

#include "scheduler/closure.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

constexpr std::size_t kWidest = 4096;
constexpr std::size_t kGrowth = 4;  // of the width from run to run
constexpr std::size_t kMaxMemory = std::size_t{1} << 30;
// With more ready nodes than that, looking for groups in each state costs more than it gives: found
// by trial on graphs of 10^4 and 10^5 nodes.
constexpr std::size_t kReadyForGroups = 48;

using StepId = std::uint32_t;

// The node that a beam ran last, and what it ran before.
struct Step {
  StepId before;
  NodeId node;
  std::uint32_t depth;
};

struct Beam {
  ReadyRunner runner;
  StepId last;
  Bytes peak;
  std::uint64_t hash;  // of the set of nodes: exclusive or of a random word per node
};

struct Child {
  Bytes peak;
  Bytes level;
  std::size_t parent;
  NodeId node;
  std::uint64_t hash;

  bool operator<(const Child& other) const {  // better
    return std::tie(peak, level, parent, node) <
           std::tie(other.peak, other.level, other.parent, other.node);
  }
};

class BeamSearch {
 public:
  BeamSearch(Search& search, std::size_t width)
      : search_(search),
        problem_(search.problem),
        width_(width),
        closure_(problem_, search.deadline),
        random_(search.seed),
        words_(at(problem_.nodes())) {
    for (std::uint64_t& word : words_) {
      word = random_();
    }
    steps_.push_back({0, kNoNode, 0});
  }

  // Offers the first beam that arrives. Answers false if the time was up or nothing below the
  // incumbent was in reach.
  bool run() {
    beams_.push_back({ReadyRunner(problem_), 0, 0, 0});
    close(beams_[0]);
    std::vector<std::size_t> alive{0};
    while (!alive.empty()) {
      for (const std::size_t b : alive) {
        if (beams_[b].runner.ready().empty()) {
          finish(beams_[b]);
          return true;
        }
      }
      if (search_.over()) {
        return false;
      }
      alive = advance(best_children(alive));
    }
    return false;
  }

 private:
  std::vector<Child> best_children(const std::vector<std::size_t>& alive) {
    // Twins, which reach one set by two ways, are at most as many as there are beams for each
    // child.
    const std::size_t enough = width_ * alive.size();
    std::vector<Child> children;
    for (const std::size_t b : alive) {
      if (search_.deadline.passed()) {
        return {};
      }
      if (children.size() / 2 > enough) {
        keep_best(children, enough);
      }
      const Beam& beam = beams_[b];
      for (const NodeId n : beam.runner.ready()) {
        const Bytes peak = std::max(beam.peak, beam.runner->while_running(n));
        if (peak < search_.incumbent.peak()) {
          children.push_back({peak, beam.runner->level() + beam.runner->change(n), b, n,
                              beam.hash ^ words_[at(n)]});
        }
      }
    }
    keep_best(children, enough);
    std::sort(children.begin(), children.end());
    std::unordered_set<std::uint64_t> seen;
    std::erase_if(children, [&](const Child& c) { return !seen.insert(c.hash).second; });
    if (children.size() > width_) {
      children.resize(width_);
    }
    return children;
  }

  static void keep_best(std::vector<Child>& children, std::size_t count) {
    if (children.size() > count) {
      std::nth_element(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(count),
                       children.end());
      children.resize(count);
    }
  }

  // Runs each child's node: the first child of a beam in the beam's own place, the others in places
  // whose beams have no child, or in new ones. Answers the places in use.
  std::vector<std::size_t> advance(const std::vector<Child>& children) {
    std::vector<bool> kept(beams_.size());
    std::vector<std::size_t> later;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (kept[children[i].parent]) {
        later.push_back(i);
      }
      kept[children[i].parent] = true;
    }
    std::vector<std::size_t> places;
    std::size_t unused = 0;
    for (const std::size_t i : later) {
      while (unused < kept.size() && kept[unused]) {
        ++unused;
      }
      if (unused < kept.size()) {
        go_to(beams_[unused], beams_[children[i].parent]);
        kept[unused] = true;
        places.push_back(unused);
      } else {
        beams_.push_back(Beam(beams_[children[i].parent]));
        places.push_back(beams_.size() - 1);
      }
    }
    std::vector<bool> ran(children.size());
    std::vector<std::size_t> alive = places;
    for (std::size_t k = 0; k < later.size(); ++k) {
      run_child(beams_[places[k]], children[later[k]]);
      ran[later[k]] = true;
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (!ran[i]) {
        run_child(beams_[children[i].parent], children[i]);
        alive.push_back(children[i].parent);
      }
    }
    return alive;
  }

  // Brings a beam to another one's state: back to where the two parted, then along the other's way.
  void go_to(Beam& beam, const Beam& other) {
    std::vector<NodeId>& way = path_;
    way.clear();
    StepId from = beam.last;
    for (StepId to = other.last; from != to;) {
      if (steps_[from].depth > steps_[to].depth) {
        beam.runner.undo(steps_[from].node);
        from = steps_[from].before;
      } else {
        way.push_back(steps_[to].node);
        to = steps_[to].before;
      }
    }
    std::for_each(way.rbegin(), way.rend(), [&](NodeId n) { beam.runner.run(n); });
    beam.last = other.last;
    beam.peak = other.peak;
    beam.hash = other.hash;
  }

  void record(Beam& beam, NodeId n) {
    steps_.push_back({beam.last, n, steps_[beam.last].depth + 1});
    beam.last = static_cast<StepId>(steps_.size() - 1);
    beam.hash ^= words_[at(n)];
  }

  void run_child(Beam& beam, const Child& child) {
    beam.peak = child.peak;
    beam.runner.run(child.node);
    record(beam, child.node);
    close(beam);
  }

  void close(Beam& beam) {
    path_.clear();
    // The closure stays under its limit, which no order's peak can be below.
    beam.peak = std::max(beam.peak, search_.incumbent.bound());
    if (beam.runner.ready().size() > kReadyForGroups) {
      closure_.close_single(beam.runner, beam.peak, path_);
    } else {
      closure_.close(beam.runner, beam.peak, path_);
    }
    for (const NodeId n : path_) {
      record(beam, n);
    }
  }

  void finish(const Beam& beam) {
    Order order;
    for (StepId step = beam.last; step != 0; step = steps_[step].before) {
      order.push_back(steps_[step].node);
    }
    std::reverse(order.begin(), order.end());
    search_.incumbent.offer(order, peak_of(problem_, order), "beam");
  }

  Search& search_;
  const Problem& problem_;
  std::size_t width_;
  Closure closure_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> words_;
  std::vector<Step> steps_;  // of all beams there have been; the first is the root
  std::vector<Beam> beams_;
  std::vector<NodeId> path_;
};

}  // namespace

void run_beam(Search& search) {
  const auto nodes = at(search.problem.nodes());
  const std::size_t bytes = nodes * (3 * sizeof(NodeId) + sizeof(std::size_t) + sizeof(Step)) +
                            search.problem.storages.size() * sizeof(std::int32_t);  // of a beam
  double expected = 0;  // seconds for the next width
  for (std::size_t width = 1; width <= kWidest && width * bytes <= kMaxMemory; width *= kGrowth) {
    const double before = search.deadline.seconds_left();
    if (search.over() || expected > before) {
      return;
    }
    BeamSearch(search, width).run();
    expected = (before - search.deadline.seconds_left()) * static_cast<double>(kGrowth);
  }
}

}  // namespace schedule
