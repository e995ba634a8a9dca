// The passes of eager.h, and the strategy made of them.
#include "scheduler/eager.h"

#include <algorithm>
#include <queue>

#include "scheduler/index.h"
#include "scheduler/runner.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

// The lowest place in the given order first.
using Places = std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>>;

std::vector<std::int32_t> places_of(const Order& order) {
  std::vector<std::int32_t> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    places[at(order[i])] = static_cast<std::int32_t>(i);
  }
  return places;
}

// Plays an order from its end: a node is free to go when all its successors have gone.
class BackwardRunner {
 public:
  explicit BackwardRunner(const Problem& problem)
      : problem_(problem),
        gone_(at(problem.nodes())),
        waiting_(gone_.size()),
        back_(problem.storages.size()),
        level_(problem.base) {
    for (std::size_t n = 0; n < waiting_.size(); ++n) {
      waiting_[n] = static_cast<std::int32_t>(problem.succs[static_cast<NodeId>(n)].size());
    }
    for (const Storage& storage : problem.storages) {
      level_ += storage.kept ? storage.bytes : 0;
    }
  }

  bool gone(NodeId n) const { return gone_[at(n)]; }
  bool free(NodeId n) const { return waiting_[at(n)] == 0 && !gone(n); }

  // By how much the level grows when the free node n goes; never grows as others go.
  Bytes change(NodeId n) const {
    Bytes bytes = 0;
    for (const StorageId s : problem_.reads[n]) {
      bytes += !problem_.storage(s).kept && back_[at(s)] == 0 ? problem_.storage(s).bytes : 0;
    }
    for (const StorageId s : problem_.makes[n]) {
      const bool lived = problem_.storage(s).kept || !problem_.readers[s].empty();
      bytes -= lived ? problem_.storage(s).bytes : 0;
    }
    return bytes;
  }
  Bytes while_running(NodeId n) const {
    Bytes bytes = level_ + change(n) + problem_.workspace[at(n)];
    for (const StorageId s : problem_.makes[n]) {
      bytes += problem_.storage(s).bytes;
    }
    return bytes;
  }
  std::int32_t readers_back(StorageId s) const { return back_[at(s)]; }
  void remove(NodeId n) {
    level_ += change(n);
    gone_[at(n)] = true;
    for (const StorageId s : problem_.reads[n]) {
      ++back_[at(s)];
    }
    for (const NodeId pred : problem_.preds[n]) {
      --waiting_[at(pred)];
    }
  }

 private:
  const Problem& problem_;
  std::vector<bool> gone_;
  std::vector<std::int32_t> waiting_;  // per node: successors that have not gone
  std::vector<std::int32_t> back_;     // per storage: readers that have gone
  Bytes level_;
};

}  // namespace

Order free_early(const Problem& problem, const Order& order) {
  const Bytes limit = peak_of(problem, order);
  const std::vector<std::int32_t> places = places_of(order);
  std::vector<NodeId> unread(problem.storages.size());
  for (std::size_t s = 0; s < unread.size(); ++s) {
    for (const NodeId reader : problem.readers[static_cast<StorageId>(s)]) {
      unread[s] ^= reader;
    }
  }
  Runner runner(problem);
  Places freeing;  // ready and not raising the level; stays so until it runs
  const auto consider = [&](NodeId n) {
    if (runner.ready(n) && runner.change(n) <= 0) {
      freeing.push(places[at(n)]);
    }
  };
  for (NodeId n = 0; n < problem.nodes(); ++n) {
    consider(n);
  }
  Order result;
  // Freeing, but they do not fit yet: by the memory that they need over the level.
  std::priority_queue<std::pair<Bytes, std::int32_t>, std::vector<std::pair<Bytes, std::int32_t>>,
                      std::greater<>>
      too_high;
  const auto run = [&](NodeId n) {
    runner.run(n);
    result.push_back(n);
    while (!too_high.empty() && runner.level() + too_high.top().first <= limit) {
      freeing.push(too_high.top().second);
      too_high.pop();
    }
    for (const NodeId succ : problem.succs[n]) {
      consider(succ);
    }
    for (const StorageId s : problem.reads[n]) {
      unread[at(s)] ^= n;
      if (runner.readers_left(s) == 1) {
        consider(unread[at(s)]);
      }
    }
  };
  for (const NodeId next : order) {
    while (!freeing.empty()) {
      const NodeId n = order[at(freeing.top())];
      freeing.pop();
      if (runner.done(n)) {
        continue;
      }
      if (runner.while_running(n) <= limit) {
        run(n);
      } else {
        too_high.emplace(runner.while_running(n) - runner.level(), places[at(n)]);
      }
    }
    if (!runner.done(next)) {
      run(next);
    }
  }
  return result;
}

Order allocate_late(const Problem& problem, const Order& order) {
  const Bytes limit = peak_of(problem, order);
  const std::vector<std::int32_t> places = places_of(order);
  BackwardRunner runner(problem);
  std::priority_queue<std::int32_t> late;  // the highest place first
  const auto consider = [&](NodeId n) {
    if (runner.free(n) && runner.change(n) <= 0) {
      late.push(places[at(n)]);
    }
  };
  Order result;
  const auto remove = [&](NodeId n) {
    runner.remove(n);
    result.push_back(n);
    for (const NodeId pred : problem.preds[n]) {
      consider(pred);
    }
    for (const StorageId s : problem.reads[n]) {
      if (runner.readers_back(s) == 1) {  // alive again: its other readers need not revive it
        std::ranges::for_each(problem.readers[s], consider);
      }
    }
  };
  for (NodeId n = 0; n < problem.nodes(); ++n) {
    consider(n);
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    while (!late.empty()) {
      const NodeId n = order[at(late.top())];
      late.pop();
      if (!runner.gone(n) && runner.while_running(n) <= limit) {
        remove(n);
      }
    }
    if (!runner.gone(order[i])) {
      remove(order[i]);
    }
  }
  std::reverse(result.begin(), result.end());
  return result;
}

Order settle(const Problem& problem, Order order, const Deadline& deadline) {
  Bytes peak = peak_of(problem, order);
  for (bool falls = true; falls && !deadline.passed();) {
    Order next = free_early(problem, order);
    if (!deadline.passed()) {
      next = allocate_late(problem, next);
    }
    const Bytes next_peak = peak_of(problem, next);
    if (next_peak <= peak) {
      order = std::move(next);
    }
    falls = next_peak < peak;
    peak = std::min(peak, next_peak);
  }
  return order;
}

void run_eager(Search& search) {
  const Order given = search.incumbent.order();
  const Order freed = free_early(search.problem, given);
  search.incumbent.offer(freed, peak_of(search.problem, freed), "eager");
  const Order settled = settle(search.problem, given, search.deadline);
  search.incumbent.offer(settled, peak_of(search.problem, settled), "eager");
}

}  // namespace schedule
