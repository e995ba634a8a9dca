// The validator: a sweep over time that keeps the alive buffers ordered by address. Cold. Shares no
// code with the planners, so that a mistake of theirs cannot hide here.
#include "dsa/validate.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

namespace dsa {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string fault_of(const Buffer& buffer) {
  if (buffer.lower >= buffer.upper) {
    return "the lifetime [" + std::to_string(buffer.lower) + ", " + std::to_string(buffer.upper) +
           ") is empty or reversed";
  }
  if (buffer.size < 0) {
    return "the size " + std::to_string(buffer.size) + " is negative";
  }
  if (buffer.alignment < 1) {
    return "the alignment " + std::to_string(buffer.alignment) + " is less than 1";
  }
  Time from = buffer.lower;
  for (const Interval& gap : buffer.gaps) {
    if (gap.lower < from || gap.lower >= gap.upper || gap.upper > buffer.upper) {
      return "the gap " + std::to_string(gap.lower) + "-" + std::to_string(gap.upper) +
             " is empty, out of order or outside the lifetime";
    }
    from = gap.upper;
  }
  if (buffer.fixed) {
    if (*buffer.fixed < 0 || *buffer.fixed % buffer.alignment != 0) {
      return "the fixed offset " + std::to_string(*buffer.fixed) + " is negative or not aligned";
    }
    if (*buffer.fixed > kMax - buffer.size) {
      return "the fixed offset and the size exceed 63 bits";
    }
  }
  return {};
}

// The buffers alive at the sweep's time, by offset: ends and indices. Those of size zero are left
// out.
class Alive {
 public:
  // The index of a buffer that overlaps the new one, or the new one's own.
  std::size_t insert(Offset lower, Offset upper, std::size_t index) {
    const auto next = by_offset_.lower_bound(lower);
    if (next != by_offset_.end() && next->first < upper) {
      return next->second.index;
    }
    if (next != by_offset_.begin() && std::prev(next)->second.upper > lower) {
      return std::prev(next)->second.index;
    }
    by_offset_.emplace_hint(next, lower, End{upper, index});
    return index;
  }
  void erase(Offset lower) { by_offset_.erase(lower); }

 private:
  struct End {
    Offset upper;
    std::size_t index;
  };
  std::map<Offset, End> by_offset_;
};

struct Change {
  Time time;
  bool birth;
  std::size_t index;
};

std::vector<Change> changes_of(const Problem& problem) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.size == 0) {
      continue;
    }
    changes.push_back({buffer.lower, true, i});
    for (const Interval& gap : buffer.gaps) {
      changes.push_back({gap.lower, false, i});
      changes.push_back({gap.upper, true, i});
    }
    changes.push_back({buffer.upper, false, i});
  }
  // A gap at the very start or end makes a birth and a death of one time cancel out; in the order
  // of deaths first, its birth would be missed, so such pairs are dropped here.
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.index, a.time) < std::tie(b.index, b.time);
  });
  std::vector<Change> kept;
  for (const Change& change : changes) {
    if (!kept.empty() && kept.back().index == change.index && kept.back().time == change.time) {
      kept.pop_back();
    } else {
      kept.push_back(change);
    }
  }
  std::sort(kept.begin(), kept.end(), [](const Change& a, const Change& b) {
    return std::tie(a.time, a.birth, a.index) < std::tie(b.time, b.birth, b.index);
  });
  return kept;
}

}  // namespace

Verdict validate(const Problem& problem) {
  Bytes sum = 0;        // the most that the buffers without fixed offsets can take
  Bytes fixed_end = 0;  // they may have to lie above all others
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (std::string fault = fault_of(buffer); !fault.empty()) {
      return {std::move(fault), i, i};
    }
    Bytes top = 0;
    if (buffer.fixed) {
      fixed_end = std::max(fixed_end, *buffer.fixed + buffer.size);
    }
    if (__builtin_add_overflow(sum, buffer.size, &sum) ||
        __builtin_add_overflow(sum, buffer.alignment - 1, &sum) ||
        __builtin_add_overflow(sum, fixed_end, &top)) {
      return {"the sizes and alignments add up to more than 63 bits", i, i};
    }
  }
  return {};
}

Verdict validate(const Problem& problem, const Plan& plan) {
  if (Verdict verdict = validate(problem); !verdict) {
    return verdict;
  }
  if (plan.offsets.size() != problem.buffers.size()) {
    return {"the plan has " + std::to_string(plan.offsets.size()) + " offsets for " +
            std::to_string(problem.buffers.size()) + " buffers"};
  }
  Bytes height = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const Offset offset = plan.offsets[i];
    if (offset < 0 || offset > kMax - buffer.size) {
      return {"the offset " + std::to_string(offset) + " is negative or too great", i, i};
    }
    if (offset % buffer.alignment != 0) {
      return {"the offset " + std::to_string(offset) + " is not aligned", i, i};
    }
    if (buffer.fixed.value_or(offset) != offset) {
      return {"the fixed offset is not kept", i, i};
    }
    height = std::max(height, offset + buffer.size);
  }
  if (height != plan.height) {
    return {"the height is " + std::to_string(height) + ", not " + std::to_string(plan.height)};
  }
  Alive alive;
  for (const Change& change : changes_of(problem)) {
    const Offset lower = plan.offsets[change.index];
    if (!change.birth) {
      alive.erase(lower);
      continue;
    }
    const Bytes size = problem.buffers[change.index].size;
    const std::size_t other = alive.insert(lower, lower + size, change.index);
    if (other != change.index) {
      return {"two buffers alive at the same time overlap in memory", other, change.index};
    }
  }
  return {};
}

}  // namespace dsa
