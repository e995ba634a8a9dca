// The report's blocks in the formats of other viewers. Time is counted in allocations: a step is
// shown as a microsecond. Cold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/cli/report/report_model.h"

namespace memo::cli {

using SiteName = std::function<std::string(std::uint64_t site)>;

// The Trace Event format that Chrome and Perfetto open: a thread's blocks as asynchronous slices,
// its live bytes as a counter.
std::string chrome_trace(const std::vector<ThreadMap>& maps, const SiteName& name);

// A snapshot for https://docs.pytorch.org/memory_viz, as torch.cuda.memory._snapshot pickles it: a
// thread's slab is a device with one segment.
std::string memory_viz_pickle(const std::vector<ThreadMap>& maps, const SiteName& name);

}  // namespace memo::cli
