// The pages of statistics of the processes that run (src/io/status_page.h): found, judged, and read
// as the statistics that a process writes to a file, with what only a running one can tell. Cold.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/io/status_page.h"

namespace memo::cli {

struct ProcessPage {
  StatusBody body;
  std::string folder;  // where it lies, and under which name
  uid_t owner = 0;
  std::string name;
  bool ended = false;      // the process is not there any more; its page has been taken away
  double age_seconds = 0;  // since it was written
};

// The pages of this user's processes, of everybody's for root; of `pid` alone if it is given.
// Sorted by pid; a process may have one of its own and one of its GPUs. Pages of processes that
// have ended are taken away, and are among the answers this once. `problems` gets a line for each
// that was not to be believed.
std::vector<ProcessPage> read_pages(std::optional<pid_t> pid, std::vector<std::string>& problems);
// One page a process: what that of its GPUs has is in its own, if there is one.
std::vector<ProcessPage> merged(std::vector<ProcessPage> pages);

// What is behind the addresses of pool and slabs, as the system tells it.
struct Residency {
  std::int64_t bytes = 0;
  std::int64_t huge_page_bytes = 0;  // of these
  std::int64_t slab_bytes = 0;       // of these, of slabs
  std::int64_t slab_huge_page_bytes = 0;
};
// True if the process' number means that process here, too: not if it is another container's.
bool is_numbered_here(const ProcessPage& page);
// None if the system does not tell (another user's process, another container's). The kernel walks
// all memory of the process, which may wait for that to map more: a millisecond for each GiB in
// small pages.
std::optional<Residency> residency_of(const ProcessPage& page);

// The names of the statistics file, and more: now, lanes, stored_plans, devices, pool, age_seconds,
// ended, and resident_bytes, huge_page_bytes and the same of slabs alone where `residency` is
// known.
nlohmann::json as_json(const ProcessPage& page, const std::optional<Residency>& residency);

}  // namespace memo::cli
