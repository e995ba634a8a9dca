// OLLA's integer program for the order of the nodes, extended by the joint formulation. Cold.
#pragma once

#include <vector>

#include "scheduler/problem.h"
#include "scheduler/solver/integer_program.h"

namespace schedule {

class OllaModel {
 public:
  static constexpr IntegerProgram::Column kAbsent = -1;
  struct Span {
    int first;
    int last;
  };

  // `most` is a peak that some order is known to reach.
  OllaModel(const Problem& problem, Bytes most);

  // Whether the program would be beyond what CBC can start on.
  static bool too_large(const Problem& problem);

  IntegerProgram& program() { return program_; }
  IntegerProgram::Column peak() const { return peak_; }
  // Per storage and step: whether it is preserved then; kAbsent where it cannot be.
  IntegerProgram::Column preserved(StorageId s, int t) const {
    return preserved_[static_cast<std::size_t>(s)][static_cast<std::size_t>(t)];
  }
  // Per storage and step: whether it is created then.
  IntegerProgram::Column created(StorageId s, int t) const {
    const NodeId producer = problem_.storage(s).producer;
    return producer == kNoNode
               ? kAbsent
               : runs_[static_cast<std::size_t>(producer)][static_cast<std::size_t>(t)];
  }
  Order order_of(const IntegerProgram::Solution& solution) const;

 private:
  static void add_term(std::vector<IntegerProgram::Term>& terms, IntegerProgram::Column column,
                       double factor);
  void add_storage(StorageId s);
  void add_precedence(NodeId pred, NodeId node);
  void add_memory(int t);

  const Problem& problem_;
  int steps_;
  IntegerProgram program_;
  std::vector<Span> spans_;  // per node
  IntegerProgram::Column peak_ = kAbsent;
  std::vector<std::vector<IntegerProgram::Column>> runs_;       // per node and step
  std::vector<std::vector<IntegerProgram::Column>> preserved_;  // per storage and step
};

}  // namespace schedule
