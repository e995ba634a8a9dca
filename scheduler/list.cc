// List scheduling: of the nodes that can run, take the one that frees most over what it allocates.
// The rules differ in what they look at first; each is a row of kRules.
#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

#include "scheduler/runner.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

// Smaller is better, first component first.
using Key = std::tuple<Bytes, Bytes, Bytes>;

struct Candidate {
  Bytes change = 0;   // of the level
  Bytes rise = 0;     // over the level while the node runs
  Bytes enabled = 0;  // minus the step at which its last predecessor ran: newest first
  Bytes place = 0;    // in the graph's own order
};

struct Rule {
  std::string_view name;
  Key (*key)(const Candidate&);
};

constexpr std::array<Rule, 4> kRules{{
    {"list by change", [](const Candidate& c) { return Key{c.change, c.rise, c.place}; }},
    {"list by change, depth first",
     [](const Candidate& c) { return Key{c.change > 0 ? 1 : c.change, c.enabled, c.place}; }},
    {"list by rise", [](const Candidate& c) { return Key{c.rise, c.change, c.place}; }},
    {"list in given order",
     [](const Candidate& c) { return Key{c.change > 0 ? 1 : c.change, c.place, c.place}; }},
}};

// A node's key only falls as others run, and only when a storage it reads loses its last but one
// reader. So stale entries in the heap are too large: each fall pushes a new one, and old ones are
// skipped.
class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const Order& given, const Rule& rule)
      : problem_(problem),
        runner_(problem),
        rule_(rule),
        place_(at(problem.nodes())),
        enabled_(place_.size()),
        unread_(problem.storages.size()) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      place_[at(given[i])] = static_cast<Bytes>(i);
    }
    for (std::size_t s = 0; s < unread_.size(); ++s) {
      for (const NodeId reader : problem.readers[static_cast<StorageId>(s)]) {
        unread_[s] ^= reader;
      }
    }
  }

  Order run() {
    Order order;
    for (NodeId n = 0; n < problem_.nodes(); ++n) {
      if (runner_.ready(n)) {
        push(n);
      }
    }
    while (!heap_.empty()) {
      const NodeId n = heap_.top().second;
      heap_.pop();
      if (runner_.done(n)) {
        continue;
      }
      runner_.run(n);
      order.push_back(n);
      for (const NodeId succ : problem_.succs[n]) {
        if (runner_.ready(succ)) {
          enabled_[at(succ)] = -static_cast<Bytes>(order.size());
          push(succ);
        }
      }
      for (const StorageId s : problem_.reads[n]) {
        NodeId& left = unread_[at(s)];
        left ^= n;  // with one reader left, the rest of the sum is that reader
        if (runner_.readers_left(s) == 1 && runner_.ready(left)) {
          push(left);
        }
      }
    }
    return order;
  }

 private:
  void push(NodeId n) {
    const auto i = at(n);
    heap_.emplace(rule_.key({runner_.change(n), runner_.while_running(n) - runner_.level(),
                             enabled_[i], place_[i]}),
                  n);
  }

  const Problem& problem_;
  Runner runner_;
  const Rule& rule_;
  std::vector<Bytes> place_;
  std::vector<Bytes> enabled_;
  std::vector<NodeId> unread_;  // per storage: exclusive or of the readers that have not run
  using Entry = std::pair<Key, NodeId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap_;
};

}  // namespace

void run_list(Search& search) {
  const Order given = search.incumbent.order();
  for (const Rule& rule : kRules) {
    if (search.over()) {
      return;
    }
    const Order order = ListScheduler(search.problem, given, rule).run();
    search.incumbent.offer(order, peak_of(search.problem, order), rule.name);
  }
}

}  // namespace schedule
