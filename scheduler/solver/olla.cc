// OLLA's integer program: which node runs at which step, and which storage is preserved at which
// step. Source: OLLA, section 3, with its reductions: a node runs between its first and last
// possible step, a storage is preserved only while it can be useful, and surely while it must be.
//
// One node runs a step, and the storages a node makes are created together, so that one variable
// stands for a node's whole row of creation variables.
#include "scheduler/solver/olla.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "scheduler/index.h"
#include "scheduler/strategies.h"

namespace schedule {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Beyond this many variables CBC takes minutes for the first relaxation alone.
constexpr std::size_t kMaxVariables = 20000;

int count_reachable(const Lists& next, NodeId from) {
  std::vector<bool> seen(next.starts.size());
  std::vector<NodeId> queue{from};
  seen[at(from)] = true;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const NodeId n : next[queue[head]]) {
      if (!seen[at(n)]) {
        seen[at(n)] = true;
        queue.push_back(n);
      }
    }
  }
  return static_cast<int>(queue.size()) - 1;
}

}  // namespace

OllaModel::OllaModel(const Problem& problem, Bytes most)
    : problem_(problem), steps_(problem.nodes()) {
  for (NodeId n = 0; n < steps_; ++n) {
    spans_.push_back(
        {count_reachable(problem.preds, n), steps_ - 1 - count_reachable(problem.succs, n)});
  }
  peak_ = program_.add_continuous(0, static_cast<double>(most), 1);
  for (NodeId n = 0; n < steps_; ++n) {
    runs_.emplace_back(at(steps_), kAbsent);
    std::vector<IntegerProgram::Term> once;
    for (int t = spans_[at(n)].first; t <= spans_[at(n)].last; ++t) {
      runs_.back()[at(t)] = program_.add_binary();
      once.emplace_back(runs_.back()[at(t)], 1);
    }
    program_.add_row(once, 1, 1);
  }
  for (int t = 0; t < steps_; ++t) {
    std::vector<IntegerProgram::Term> one;
    for (NodeId n = 0; n < steps_; ++n) {
      add_term(one, runs_[at(n)][at(t)], 1);
    }
    program_.add_row(one, 1, 1);
  }
  for (std::size_t s = 0; s < problem.storages.size(); ++s) {
    add_storage(static_cast<StorageId>(s));
  }
  for (NodeId n = 0; n < steps_; ++n) {
    for (const NodeId pred : problem.preds[n]) {
      add_precedence(pred, n);
    }
  }
  for (int t = 0; t < steps_; ++t) {
    add_memory(t);
  }
}

bool OllaModel::too_large(const Problem& problem) {
  const auto nodes = static_cast<std::size_t>(problem.nodes());
  return nodes * (nodes + problem.storages.size()) > kMaxVariables;
}

void OllaModel::add_term(std::vector<IntegerProgram::Term>& terms, IntegerProgram::Column column,
                         double factor) {
  if (column != kAbsent) {
    terms.emplace_back(column, factor);
  }
}

// Preserved at t only if preserved or created at t - 1; read only where preserved; kept once
// created.
void OllaModel::add_storage(StorageId s) {
  const Storage& storage = problem_.storage(s);
  int first = 0;
  int sure_from = 0;
  int last = storage.kept ? steps_ - 1 : -1;
  int sure_until = storage.kept ? steps_ - 1 : -1;
  if (storage.producer != kNoNode) {
    first = spans_[at(storage.producer)].first + 1;
    sure_from = spans_[at(storage.producer)].last + 1;
  }
  for (const NodeId reader : problem_.readers[s]) {
    last = std::max(last, spans_[at(reader)].last);
    sure_until = std::max(sure_until, spans_[at(reader)].first);
  }
  std::vector<IntegerProgram::Column>& kept = preserved_.emplace_back(at(steps_), kAbsent);
  for (int t = first; t <= last; ++t) {
    kept[at(t)] = program_.add_binary();
    if (t >= sure_from && t <= sure_until) {
      program_.fix(kept[at(t)], 1);
    }
  }
  const std::vector<IntegerProgram::Column>* created =
      storage.producer == kNoNode ? nullptr : &runs_[at(storage.producer)];
  for (int t = first; t <= last; ++t) {
    std::vector<IntegerProgram::Term> step{{kept[at(t)], 1}};
    if (t > 0) {
      add_term(step, kept[at(t - 1)], -1);
    }
    if (created != nullptr && t > 0) {
      add_term(step, (*created)[at(t - 1)], -1);
    }
    if (t > 0 || created != nullptr) {
      program_.add_row(step, storage.kept ? 0 : -kInfinity, 0);
    }
    if (created != nullptr && (*created)[at(t)] != kAbsent) {
      program_.at_most({{kept[at(t)], 1}, {(*created)[at(t)], 1}}, 1);
    }
  }
  for (const NodeId reader : problem_.readers[s]) {
    for (int t = 0; t < steps_; ++t) {
      if (runs_[at(reader)][at(t)] != kAbsent) {
        program_.at_most({{runs_[at(reader)][at(t)], 1}, {kept[at(t)], -1}}, 0);
      }
    }
  }
}

// A control edge, or one that carries no bytes: the predecessor has run before.
void OllaModel::add_precedence(NodeId pred, NodeId node) {
  for (const StorageId s : problem_.reads[node]) {
    if (problem_.storage(s).producer == pred) {
      return;  // implied by preservation
    }
  }
  for (int t = spans_[at(node)].first; t <= spans_[at(node)].last; ++t) {
    std::vector<IntegerProgram::Term> terms{{runs_[at(node)][at(t)], 1}};
    for (int before = 0; before < t; ++before) {
      add_term(terms, runs_[at(pred)][at(before)], -1);
    }
    program_.add_row(terms, -kInfinity, 0);
  }
}

void OllaModel::add_memory(int t) {
  std::vector<IntegerProgram::Term> memory{{peak_, -1}};
  for (std::size_t s = 0; s < problem_.storages.size(); ++s) {
    add_term(memory, preserved_[s][at(t)], static_cast<double>(problem_.storages[s].bytes));
  }
  for (NodeId n = 0; n < steps_; ++n) {
    const IntegerProgram::Column runs = runs_[at(n)][at(t)];
    if (runs == kAbsent) {
      continue;
    }
    Bytes needs = problem_.workspace[at(n)];
    for (const StorageId s : problem_.makes[n]) {
      needs += problem_.storage(s).bytes;
    }
    memory.emplace_back(runs, static_cast<double>(needs));
    std::vector<IntegerProgram::Term> one_saving{{runs, -1}};
    for (const Saving& saving : problem_.savings[at(n)]) {
      const IntegerProgram::Column saves = program_.add_binary();
      memory.emplace_back(saves, -static_cast<double>(saving.bytes));
      one_saving.emplace_back(saves, 1);
      if (t + 1 < steps_ && preserved_[at(saving.input)][at(t + 1)] != kAbsent) {
        program_.at_most({{saves, 1}, {preserved_[at(saving.input)][at(t + 1)], 1}}, 1);
      }
    }
    if (one_saving.size() > 1) {
      program_.add_row(one_saving, -kInfinity, 0);
    }
  }
  program_.add_row(memory, -kInfinity, -static_cast<double>(problem_.base));
}

Order OllaModel::order_of(const IntegerProgram::Solution& solution) const {
  Order order;
  for (int t = 0; t < steps_; ++t) {
    for (NodeId n = 0; n < steps_; ++n) {
      const IntegerProgram::Column column = runs_[at(n)][at(t)];
      if (column != kAbsent && solution.values[at(column)] > 0.5) {
        order.push_back(n);
      }
    }
  }
  return order;
}

void run_olla(Search& search) {
  if (search.over() || OllaModel::too_large(search.problem)) {
    return;
  }
  OllaModel model(search.problem, search.incumbent.peak());
  const auto solution = model.program().solve(search.deadline.seconds_left());
  if (!solution) {
    return;
  }
  const Order order = model.order_of(*solution);
  search.incumbent.offer(order, peak_of(search.problem, order), "olla");
  // The solver's arithmetic is good to about 1e-7: a bound is trusted less than that.
  const double slack = 1e-6 * static_cast<double>(search.incumbent.peak());
  if (solution->optimal) {
    search.incumbent.raise_bound(
        static_cast<Bytes>(std::ceil(solution->values[at(model.peak())] - slack)));
  }
}

}  // namespace schedule
