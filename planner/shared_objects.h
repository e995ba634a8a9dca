// Shared objects: buffers are dealt out to objects, each of which serves one buffer at a time and
// is as large as its largest; laid side by side, the objects make a plan. Cold. Source: Pisarchyk &
// Lee, "Efficient Memory Management for Deep Neural Net Inference", section 4.
#pragma once

#include <map>
#include <vector>

#include "planner/orders.h"
#include "planner/strategy.h"

namespace dsa {

class SharedObjects {
 public:
  static constexpr std::size_t kNew = ~std::size_t{0};

  explicit SharedObjects(const Model& model)
      : model_(model), object_of_(model.items.size(), kNew) {}

  // Can the object serve the item besides those it serves? Their alignments must divide each other.
  bool suits(std::size_t object, ItemId item) const;
  // Sections between the item and the nearest other that the object serves; needs suits().
  Section distance(std::size_t object, ItemId item) const;
  // Gives the item to the object, which grows if it must; kNew makes one.
  void assign(ItemId item, std::size_t object);

  std::size_t count() const { return objects_.size(); }
  Bytes size(std::size_t object) const { return objects_[object].size; }

  // Lays the objects side by side. Fixed offsets are kept by first fit in the order of the objects.
  Found plan(const Budget& budget) const;

 private:
  struct Object {
    Bytes size = 0;
    Bytes alignment = 1;
    std::map<Section, Section> busy;  // disjoint [lower, upper)
  };

  const Model& model_;
  std::vector<Object> objects_;
  std::vector<std::size_t> object_of_;
};

// For each k, the greatest k-th largest size that is alive in a section, descending. No set of
// shared objects is smaller than their sum. Of the first sections only, if the budget runs out.
// Source: the same, section 4.1.
std::vector<Bytes> positional_maxima(const Model& model, const Budget& budget);

}  // namespace dsa
