// What an order must do to stay below a limit. Cold.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/deadline.h"
#include "scheduler/problem.h"

namespace schedule {

// A problem whose precedence grows. Its transitive closure takes nodes^2 / 4 bytes.
class Precedences {
 public:
  explicit Precedences(const Problem& problem);

  enum class Verdict : std::uint8_t {
    kRefuted,  // no order has a peak of `limit` or less
    kOpen,     // such an order, if there is one, has all the precedences that have been added
    kLate,     // the time is up; the same holds of those added so far
  };
  // Adds what follows of `limit`: if the least that is alive while node b runs exceeds it where a
  // has run by then, then b must come first; and the same of what has not run. What is added makes
  // other states dearer, so it goes round until nothing follows any more. A smaller limit may
  // follow a larger one, not the reverse. Source: the idea is edge finding of disjunctive
  // scheduling (Carlier and Pinson 1989) with a minimum cut as its bound; scheduler/README.md,
  // precedences.
  Verdict deduce(Bytes limit, const Deadline& deadline);

  // With what was added.
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] std::size_t added() const { return added_; }

 private:
  bool add(NodeId first, NodeId second);
  Verdict deduce_around(NodeId node, Bytes limit, const Deadline& deadline);

  Problem problem_;
  std::vector<std::vector<bool>> earlier_;  // per node
  std::vector<std::vector<bool>> later_;    // per node, itself included
  std::size_t added_ = 0;
};

}  // namespace schedule
