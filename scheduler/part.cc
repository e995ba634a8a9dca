// Parts of a problem: the nodes between two positions, with what is alive at the borders.
#include "scheduler/part.h"

#include <numeric>

#include "scheduler/index.h"

namespace schedule {
PartMaker::PartMaker(const Problem& problem)
    : problem_(problem),
      runner_(problem),
      local_(at(problem.nodes()), kNoNode),
      local_storage_(problem.storages.size(), -1) {}

StorageId PartMaker::translate(StorageId s, Problem& part) {
  StorageId& mine = local_storage_[at(s)];
  if (mine >= 0) {
    return mine;
  }
  mine = static_cast<StorageId>(part.storages.size());
  touched_.push_back(s);
  const Storage& whole = problem_.storage(s);
  Storage copy{whole.bytes, whole.producer == kNoNode ? kNoNode : local_[at(whole.producer)],
               whole.kept};
  for (const NodeId reader : problem_.readers[s]) {
    copy.kept = copy.kept || (local_[at(reader)] == kNoNode && !runner_.done(reader));
  }
  if (copy.producer == kNoNode) {
    part.base -= copy.bytes;  // alive at the start, accounted for as a storage of its own
  }
  part.storages.push_back(copy);
  return mine;
}

Problem PartMaker::cut(const Order& order, std::size_t begin, std::size_t end) {
  for (; position_ < begin; ++position_) {
    runner_.run(order[position_]);
  }
  for (std::size_t i = begin; i < end; ++i) {
    local_[at(order[i])] = static_cast<NodeId>(i - begin);
  }
  Problem part;
  part.base = runner_.level();
  const auto translate_all = [&](std::span<const StorageId> list) {
    std::vector<StorageId> result;
    for (const StorageId s : list) {
      result.push_back(translate(s, part));
    }
    return result;
  };
  for (std::size_t i = begin; i < end; ++i) {
    const NodeId node = order[i];
    std::vector<NodeId> preds;
    for (const NodeId pred : problem_.preds[node]) {
      if (local_[at(pred)] != kNoNode) {
        preds.push_back(local_[at(pred)]);
      }
    }
    part.preds.push(preds);
    part.makes.push(translate_all(problem_.makes[node]));
    part.reads.push(translate_all(problem_.reads[node]));
    part.workspace.push_back(problem_.workspace[at(node)]);
    part.savings.emplace_back();
    for (const Saving& saving : problem_.savings[at(node)]) {
      const Saving mine{local_storage_[at(saving.output)], local_storage_[at(saving.input)],
                        saving.bytes};
      if (!part.storages[at(mine.input)].kept) {
        part.savings.back().push_back(mine);
      }
    }
  }
  part.succs = inverse(part.preds, part.nodes());
  part.readers = inverse(part.reads, static_cast<std::int32_t>(part.storages.size()));
  for (std::size_t i = begin; i < end; ++i) {
    local_[at(order[i])] = kNoNode;
  }
  for (const StorageId s : touched_) {
    local_storage_[at(s)] = -1;
  }
  touched_.clear();
  return part;
}

Order given_order(const Problem& problem) {
  Order order(at(problem.nodes()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void put_back(const Incumbent& part, Order& order, std::size_t begin) {
  Order mine;
  for (const NodeId n : part.order()) {
    mine.push_back(order[begin + at(n)]);
  }
  std::copy(mine.begin(), mine.end(), order.begin() + static_cast<std::ptrdiff_t>(begin));
}

}  // namespace schedule
