// Beam search: the most promising few downsets of each size, all closed eagerly, until all nodes
// have run.
#include <algorithm>
#include <random>
#include <unordered_set>

#include "scheduler/closure.h"
#include "scheduler/eager.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

// Work per step is width x (nodes + storages) for copying; widths beyond this would take too long.
constexpr double kCopiesPerSecond = 2e8;
constexpr std::size_t kWidest = 4096;

struct Beam {
  Runner runner;
  std::vector<NodeId> ready;
  Order order;
  Bytes peak = 0;
  std::uint64_t hash = 0;  // of the set of nodes: exclusive or of a random word per node
};

struct Child {
  Bytes peak;
  Bytes level;
  std::size_t parent;
  NodeId node;
  std::uint64_t hash;
};

class BeamSearch {
 public:
  explicit BeamSearch(Search& search)
      : search_(search),
        problem_(search.problem),
        closure_(problem_),
        random_(search.seed),
        words_(static_cast<std::size_t>(problem_.nodes())) {
    for (std::uint64_t& word : words_) {
      word = random_();
    }
  }

  // Answers false if the time was up or nothing below the incumbent was in reach.
  bool run(std::size_t width) {
    std::vector<Beam> beams(1, Beam{Runner(problem_), {}, {}, 0, 0});
    for (NodeId n = 0; n < problem_.nodes(); ++n) {
      if (beams[0].runner.ready(n)) {
        beams[0].ready.push_back(n);
      }
    }
    close(beams[0]);
    while (!beams.empty()) {
      std::vector<Beam> next;
      for (const Child& child : best_children(beams, width)) {
        if (search_.over()) {
          return false;
        }
        Beam beam = beams[child.parent];
        step(beam, child.node);
        close(beam);
        if (beam.ready.empty()) {
          search_.incumbent.offer(beam.order, peak_of(problem_, beam.order), "beam");
          return true;
        }
        next.push_back(std::move(beam));
      }
      beams = std::move(next);
    }
    return false;
  }

 private:
  std::vector<Child> best_children(const std::vector<Beam>& beams, std::size_t width) {
    std::vector<Child> children;
    for (std::size_t b = 0; b < beams.size(); ++b) {
      for (const NodeId n : beams[b].ready) {
        const Runner& runner = beams[b].runner;
        const Bytes peak = std::max(beams[b].peak, runner.while_running(n));
        if (peak < search_.incumbent.peak()) {
          children.push_back({peak, runner.level() + runner.change(n), b, n,
                              beams[b].hash ^ words_[static_cast<std::size_t>(n)]});
        }
      }
    }
    std::stable_sort(children.begin(), children.end(), [](const Child& a, const Child& b) {
      return a.peak != b.peak ? a.peak < b.peak : a.level < b.level;
    });
    std::unordered_set<std::uint64_t> seen;
    std::erase_if(children, [&](const Child& c) { return !seen.insert(c.hash).second; });
    if (children.size() > width) {
      children.resize(width);
    }
    return children;
  }

  void step(Beam& beam, NodeId n) {
    beam.peak = std::max(beam.peak, beam.runner.while_running(n));
    beam.runner.run(n);
    beam.order.push_back(n);
    beam.hash ^= words_[static_cast<std::size_t>(n)];
    beam.ready.erase(std::find(beam.ready.begin(), beam.ready.end(), n));
    for (const NodeId succ : problem_.succs[n]) {
      if (beam.runner.ready(succ)) {
        beam.ready.push_back(succ);
      }
    }
  }

  void close(Beam& beam) {
    path_.clear();
    closure_.close(beam.runner, std::max(beam.peak, search_.incumbent.bound()), beam.ready, path_);
    for (const NodeId n : path_) {
      beam.order.push_back(n);
      beam.hash ^= words_[static_cast<std::size_t>(n)];
    }
    // The closure stays under its limit, which no order's peak can be below.
    beam.peak = std::max(beam.peak, search_.incumbent.bound());
  }

  Search& search_;
  const Problem& problem_;
  Closure closure_;
  std::mt19937_64 random_;
  std::vector<std::uint64_t> words_;
  std::vector<NodeId> path_;
};

}  // namespace

void run_beam(Search& search) {
  const double state = static_cast<double>(search.problem.nodes()) +
                       static_cast<double>(search.problem.storages.size());
  const double steps = static_cast<double>(search.problem.nodes());
  for (std::size_t width = 1; width <= kWidest && !search.over(); width *= 4) {
    const double seconds = static_cast<double>(width) * state * steps / kCopiesPerSecond;
    if (seconds > search.deadline.seconds_left()) {
      return;
    }
    BeamSearch(search).run(width);
  }
}

}  // namespace schedule
