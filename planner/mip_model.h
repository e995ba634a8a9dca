// The mixed-integer program of the placement problem. Cold. Solved by planner/solver where COIN-OR
// CBC is installed; written as .lp or .mps for any other solver.
//
//   minimise height
//   offset_i + size_i <= height                            for every buffer
//   offset_i + size_i <= offset_j + M z_ij                 for every pair that lives at the same
//   time: offset_j + size_j <= offset_i + M (1 - z_ij)           one of the two lies below, z_ij
//   says which
//
// with M the height of a known plan. An alignment makes offset_i = alignment_i * steps_i, steps_i
// whole. Source: MemoMalloc thesis, equation 2.1; Sekiyama et al., 2018.
#pragma once

#include <string>
#include <vector>

#include "planner/model.h"

namespace dsa {

struct MipModel {
  // Column c: its name, bounds and kind. Column 0 is the height, columns 1 to n the items' offsets.
  struct Column {
    std::string name;
    double lower = 0;
    double upper = 0;
    bool integer = false;
  };
  struct Term {
    int column;
    double factor;
  };
  struct Row {
    std::vector<Term> terms;
    double at_least;
    bool equal = false;
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
  double unit = 1;  // bytes per unit of size: all sizes and alignments are multiples of it

  // `known` is the height of a plan, from which M comes.
  MipModel(const Model& model, Bytes known);
};

// The program in the CPLEX LP format, and in free MPS.
std::string format_lp(const MipModel& mip);
std::string format_mps(const MipModel& mip);

}  // namespace dsa
