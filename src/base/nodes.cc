// See nodes.h.
#include "src/base/nodes.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "src/base/proc_file.h"

namespace memo {
namespace {

// A list's line: 128 processors, every second one, take 450 bytes. What is longer is cut, and its
// processors are not known.
using ListReader = os::LinesOf<1024>;

// Calls function(first, last) for each range of a list such as "0-3,8,10-11".
template <typename Function>
void for_each_range(std::string_view list, Function&& function) {
  while (!list.empty() && list.front() >= '0' && list.front() <= '9') {
    const std::string_view range = list.substr(0, list.find(','));
    const std::size_t dash = range.find('-');
    const std::uint64_t first = os::number_in(range.substr(0, dash));
    const std::uint64_t last =
        dash == std::string_view::npos ? first : os::number_in(range.substr(dash));
    function(first, last);
    list.remove_prefix(std::min(list.size(), range.size() + 1));
  }
}

NodeSet nodes_in(std::string_view list) {
  NodeSet nodes = 0;
  for_each_range(list, [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t node = first; node <= last && node < kMaxNodes; ++node) {
      nodes |= only(static_cast<std::uint32_t>(node));
    }
  });
  return nodes;
}

// FOLDER/NAME, or FOLDER/nodeN/NAME.
class NodeFile {
 public:
  NodeFile(std::string_view folder, std::string_view name, int node = -1) {
    add(folder);
    if (node >= 0) {
      const char digits[] = {static_cast<char>('0' + node / 10),
                             static_cast<char>('0' + node % 10)};
      add("/node");
      add(std::string_view(digits, 2).substr(node < 10 ? 1 : 0));
    }
    add("/");
    add(name);
  }
  [[nodiscard]] const char* text() const { return text_; }

 private:
  void add(std::string_view part) {
    const std::size_t room = sizeof text_ - 1 - size_;
    size_ += part.copy(text_ + size_, std::min(part.size(), room));
  }
  char text_[256] = {};
  std::size_t size_ = 0;
};

NodeSet nodes_of(const char* folder, const char* name) {
  ListReader file(NodeFile(folder, name).text());
  std::string_view line;
  return file.next(line) ? nodes_in(line) : 0;
}

// The nodes whose memory the process may use; all where that is not told.
NodeSet allowed(const char* status) {
  constexpr std::string_view kName = "Mems_allowed_list:\t";
  ListReader file(status);
  for (std::string_view line; file.next(line);) {
    if (line.starts_with(kName)) {
      return nodes_in(line.substr(kName.size()));
    }
  }
  return ~NodeSet{0};
}

}  // namespace

void Topology::read(const char* folder, const char* status) {
  usable_ = nodes_of(folder, "has_cpu") & nodes_of(folder, "has_memory") & allowed(status);
  std::fill(of_, of_ + kMaxProcessors, static_cast<std::uint8_t>(kNoNode));
  for (std::uint32_t node = 0; node < kMaxNodes; ++node) {
    if ((usable_ & only(node)) == 0) {
      continue;
    }
    ListReader file(NodeFile(folder, "cpulist", static_cast<int>(node)).text());
    std::string_view list;
    file.next(list);
    for_each_range(list, [&](std::uint64_t first, std::uint64_t last) {
      for (std::uint64_t i = first; i <= last && i < kMaxProcessors; ++i) {
        of_[i] = static_cast<std::uint8_t>(node);
      }
    });
  }
}

namespace os {

bool several_nodes(const char* folder) {
  const int saved = errno;
  LineReader file(NodeFile(folder, "online").text());
  std::string_view line;
  const bool answer = file.next(line) && several(nodes_in(line));
  errno = saved;
  return answer;
}

#ifdef __x86_64__
// By the kernel's page of code that is mapped into each process, or the C library's own note.
int processor() {
  const int saved = errno;
  const int number = sched_getcpu();
  errno = saved;
  return number;
}
void find_processor_note() {}
#else
namespace {
constinit std::atomic<std::ptrdiff_t> note_at{0};  // from the thread pointer; 0: there is none
}
// The kernel keeps it up to date in the area that the C library has registered (rseq(2)).
int processor() {
  const std::ptrdiff_t at = note_at.load(std::memory_order_relaxed);
  if (at == 0) {
    return -1;
  }
  constexpr std::ptrdiff_t kProcessor = 4;  // cpu_id, behind cpu_id_start; negative: not registered
  const auto* note = static_cast<const char*>(__builtin_thread_pointer()) + at + kProcessor;
  return *reinterpret_cast<const volatile std::int32_t*>(note);
}
void find_processor_note() {
  const void* offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
  if (offset != nullptr) {
    std::ptrdiff_t at = 0;
    std::memcpy(&at, offset, sizeof at);
    note_at.store(at, std::memory_order_relaxed);
  }
}
#endif

bool page_nodes(void* const* pages, std::size_t count, const int* to, int* found) {
  constexpr int kMoveOwn = 2;  // MPOL_MF_MOVE
  const int saved = errno;
  // Before Linux 4.17 it answers ENOENT where no page had to be moved.
  const bool answered =
      syscall(SYS_move_pages, 0, count, pages, to, found, kMoveOwn) >= 0 || errno == ENOENT;
  errno = saved;
  return answered;
}

bool bind_to_node(const Topology& topology, std::uint32_t node) {
  constexpr std::size_t kWord = 8 * sizeof(unsigned long);
  unsigned long processors[Topology::kMaxProcessors / kWord] = {};
  for (std::uint32_t i = 0; i < Topology::kMaxProcessors; ++i) {
    if (topology.node_of(static_cast<int>(i)) == node) {
      processors[i / kWord] |= 1UL << (i % kWord);
    }
  }
  const int saved = errno;
  const bool bound =
      sched_setaffinity(0, sizeof processors, reinterpret_cast<const cpu_set_t*>(processors)) == 0;
  errno = saved;
  return bound;
}

}  // namespace os
}  // namespace memo
