// The heap map: a plan as a picture, time across and addresses up. Cold.
#pragma once

#include <string>
#include <vector>

#include "dsa/problem.h"

namespace memo::cli {

// What the picture shows besides the plan.
struct HeapMapText {
  std::string title;             // shown above the map, such as the problem's and planner's names
  std::vector<std::string> ids;  // by buffer, for tooltips; may be empty
};

// An SVG document: a rectangle for each part of a lifetime, the load as a curve, the lower bound as
// a line and the fullest moment marked. Tooltips name the buffers of maps of at most 5000 buffers;
// with more, rectangles that would be too small to see are drawn together. Requires a valid plan.
std::string draw_heap_map(const dsa::Problem& problem, const dsa::Plan& plan,
                          dsa::Bytes lower_bound, const HeapMapText& text);

// A size as people read it: "1.50 MiB", "640 B".
std::string human_bytes(dsa::Bytes bytes);

}  // namespace memo::cli
