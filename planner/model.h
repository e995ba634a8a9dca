// The planners' view of a problem: time cut down to the moments that matter, buffers as flat
// arrays. Cold. Built once per plan; read-only afterwards.
//
// Time is compressed to *sections*. Two buffers conflict if and only if they share a section, and
// the load of a problem is greatest in one of them: a section stands for a maximal run of births
// that a death follows, so there are never more sections than buffer parts.
//
//   a  +-----------+            births: a b | death: b | birth: c | deaths: a c
//   b    +----+                 section 0 = {a, b}        section 1 = {a, c}
//   c            +----+
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dsa/problem.h"

namespace dsa {

using Section = std::int32_t;  // index of a section of compressed time
using ItemId = std::int32_t;   // index of an item of a model

inline constexpr Offset kNotFixed = -1;

// A half-open interval of sections.
struct Span {
  Section lower = 0;
  Section upper = 0;
};

// A buffer of non-zero size.
struct Item {
  Bytes size = 0;
  Bytes alignment = 1;
  Offset fixed = kNotFixed;
  Section lower = 0;  // the hull of its parts
  Section upper = 0;
  std::uint32_t first_part = 0;  // its parts are Model::parts[first_part, last_part)
  std::uint32_t last_part = 0;
  bool gapped() const { return last_part - first_part > 1; }
};

struct Model {
  // Requires a well-formed problem: validate(problem) holds.
  explicit Model(const Problem& problem);

  std::span<const Span> parts_of(const Item& item) const {
    return {parts.data() + item.first_part, parts.data() + item.last_part};
  }

  // The plan that puts item i at offsets[i].
  Plan plan_of(const std::vector<Offset>& offsets) const;

  // What is alive in a window of sections, as a model of its own: section s becomes s -
  // window.lower, item i stands for chosen[i]. Items that reach beyond the window are cut off at
  // its ends and fixed where `offsets` has them. Requires items that are alive in the window.
  Model part(const Span& window, std::span<const ItemId> chosen,
             const std::vector<Offset>& offsets) const;

  std::vector<Item> items;
  std::vector<Span> parts;            // ascending and apart within each item
  std::vector<std::uint32_t> source;  // source[i]: the buffer that item i stands for
  std::vector<Bytes> load;            // load[s]: sum of the sizes alive in section s
  std::vector<Offset> resting;        // offset of each buffer that is never alive or of size zero
  Bytes resting_height = 0;           // where the highest of those ends
  Bytes bound = 0;                    // no plan is lower
  Bytes unit = 1;                     // divides every offset: what all alignments have in common
  bool has_gaps = false;
  bool has_fixed = false;
  bool has_alignment = false;  // some alignment is greater than 1

 private:
  Model() = default;
  void measure();  // fills load, bound, unit and the flags from items and parts
  void raise_bound_by_padding();
};

// The least multiple of alignment (> 0) that is at least offset (>= 0); must not overflow.
constexpr Offset align_up(Offset offset, Bytes alignment) {
  if (alignment == 1) {
    return offset;
  }
  const Offset over = offset % alignment;
  return over == 0 ? offset : offset + (alignment - over);
}

}  // namespace dsa
