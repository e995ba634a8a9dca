// Fuzzes sequences of calls on an engine. The input is an iteration of calls, how often it is
// repeated, and where it is disturbed: so the engine learns, plans, serves, and meets calls that no
// plan foresaw. Threads end and processes fork in between; a forked child sees all that was alive.
//
// The model knows every block that is alive. A block may overlap no other, has its alignment, size
// and zeroes, keeps its marks until it is freed, and is freed exactly once; what starts no block is
// refused.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "src/base/guard.h"
#include "src/engine/engine.h"
#include "tests/fuzz/require.h"

extern "C" void* __real_mmap(void*, std::size_t, int, int, int, off_t);

namespace {

// Asks the kernel itself: clang's address sanitizer writes the shadow of all that its munmap gives
// back, which for the terabytes that an engine reserves is gigabytes.
int unmap(void* address, std::size_t bytes) {
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

// What the engine maps lives as long as a process; a fuzzed process has thousands of engines.
bool collecting = false;
struct Mapping {
  char* start;
  char* end;
};
std::vector<Mapping>& mappings() {
  static std::vector<Mapping> all;
  return all;
}

struct Call {
  std::uint8_t kind, first, second;
};

struct Block {
  char* start;
  std::uint64_t size;
  std::uint64_t id;
};

constexpr std::size_t kMaxAlive = 96;
// Most of a sequence's time are page faults: blocks have a few pages in three sequences of four, and
// of many pages only each fourth is marked, which follows from the block.
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFewPages = 8 * kPage;
constexpr std::uint64_t kPagesForAMark = 4;
// Bounds of a sequence, and so of its time.
constexpr std::size_t kMostCalls = 600;
constexpr unsigned kMostForks = 2;

class Model {
 public:
  // `unit` is the least size of a block, a fifth of the largest at first, a ninth once resized.
  explicit Model(std::uint64_t unit) : unit_(unit) {
    options_.THRESHOLD = unit;
    options_.PLAN_TIME = 1;
    options_.SLAB_LIMIT = 16ULL << 20;
    options_.HUGEPAGES = memo::Choice::kNever;
    engine_->configure(options_, {});
  }

  void perform(const Call& call) {
    switch (call.kind % 8) {
      case 0:
      case 1:
      case 2:
      case 3:
        return allocate(call);
      case 4:
      case 5:
        return release(call.first);
      case 6:
        return resize(call);
      default:
        return disturb(call);
    }
  }

  void look() const { require(engine_->lanes.valid()); }

  void release_all() {
    while (!alive_.empty()) {
      release(0);
    }
  }

  // Blocks that came from a plan.
  [[nodiscard]] std::uint64_t planned() const {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < engine_->lanes.count(); ++i) {
      sum += engine_->lanes.at(i).counters.planned_allocations.get();
    }
    return sum;
  }

 private:
  template <typename Function>
  static void each_mark(const Block& block, std::uint64_t size, Function&& function) {
    const std::uint64_t step = block.size < kFewPages ? 1 : kPagesForAMark;
    const std::uint64_t first = (block.id >> 32) % step * kPage;
    for (std::uint64_t at = first; at + 8 <= size; at += step * kPage) {
      function(block.start + at, block.id + at);
    }
  }
  static void mark(const Block& block) {
    each_mark(block, block.size, [](char* at, std::uint64_t word) { std::memcpy(at, &word, 8); });
  }
  static void compare(const Block& block, std::uint64_t size) {
    each_mark(block, size,
              [](const char* at, std::uint64_t word) { require(std::memcmp(at, &word, 8) == 0); });
  }

  void allocate(const Call& call) {
    if (alive_.size() >= kMaxAlive) {
      release(call.first);
    }
    memo::Request request;
    request.size = unit_ + call.first * (unit_ / 64 - 3);
    request.alignment = std::uint64_t{16} << (call.second % 32 < 24 ? 2 : call.second % 32 - 15);
    request.zero = (call.kind & 8) != 0;
    auto* start = static_cast<char*>(engine_->allocate(request));
    if (start == nullptr) {
      return;
    }
    require(reinterpret_cast<std::uint64_t>(start) % request.alignment == 0);
    require(engine_->owns(start) && engine_->size(start) >= request.size);
    for (const Block& other : alive_) {
      require(start + request.size <= other.start || other.start + other.size <= start);
    }
    for (std::uint64_t at = 0; request.zero && at < request.size; at += 64) {
      require(start[at] == 0);
    }
    alive_.push_back({start, request.size, next_id_ += 1ULL << 32});
    mark(alive_.back());
  }

  void release(std::uint64_t which) {
    if (alive_.empty()) {
      return;
    }
    const auto chosen = alive_.begin() + static_cast<std::ptrdiff_t>(which % alive_.size());
    const Block block = *chosen;
    alive_.erase(chosen);
    compare(block, block.size);
    require(!engine_->free(block.start + (block.size > kPage ? kPage : 64)));
    require(engine_->free(block.start));
    require(!engine_->free(block.start) && engine_->size(block.start) == 0);
  }

  void resize(const Call& call) {
    if (alive_.empty()) {
      return;
    }
    Block& block = alive_[call.first % alive_.size()];
    const std::uint64_t size = unit_ + call.second * (unit_ / 32 - 9);
    compare(block, block.size);
    if (!engine_->resize(block.start, size)) {
      return;
    }
    require(engine_->size(block.start) >= size);
    compare(block, std::min(block.size, size));
    block.size = size;
    for (const Block& other : alive_) {
      require(&other == &block || block.start + size <= other.start ||
              other.start + other.size <= block.start);
    }
    mark(block);
  }

  void disturb(const Call& call) {
    switch (call.first % 8) {
      case 0:
        return engine_->iteration();
      case 1:
        return engine_->give_back.all();
      case 2:
        engine_->give_back.tick(now_ += 5 * memo::os::kSecond);
        return;
      case 3:
        engine_->give_back.trim();
        return;
      case 4:
        return release_all();
      case 5: {  // the thread ends, and another takes its lane
        engine_->thread_ended();
        memo::t_state = {};
        return;
      }
      case 6:
        return fork_off(call.second);
      default:
        return release_wrongly(call.second);
    }
  }

  // The child finds every block as it was and goes on with calls of its own, whether or not fork()'s
  // handlers have run.
  void fork_off(std::uint8_t way) {
    if (forks_++ >= kMostForks) {
      return;
    }
    const bool with_handlers = (way & 1) != 0;
    if (with_handlers) {
      engine_->before_fork();
    }
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      if (with_handlers) {
        engine_->forks.after_in_child();
      }
      const std::uint64_t before = alive_.size() / 2;
      while (alive_.size() > before) {
        release(way);
      }
      for (std::uint8_t i = 0; i < 8; ++i) {
        allocate({i, static_cast<std::uint8_t>(way + i), i});
      }
      look();
      release_all();
      look();
      _exit(0);
    }
    if (with_handlers) {
      engine_->forks.after_in_parent();
    }
    int status = 0;
    pid_t ended = child;
    do {  // the fuzzer's own timer interrupts it
      ended = child == -1 ? child : waitpid(child, &status, 0);
    } while (ended == -1 && child != -1 && errno == EINTR);
    require(ended == child && status == 0);
  }

  // Frees what may lie in a block or behind all of them, but starts none.
  void release_wrongly(std::uint64_t granule) {
    if (!engine_->lanes.opened()) {
      return;
    }
    auto* wrong = reinterpret_cast<char*>(engine_->lanes.region.base()) + granule * memo::kGranule;
    for (const Block& block : alive_) {
      if (block.start == wrong) {
        return;
      }
    }
    require(!engine_->free(wrong) && !engine_->free(wrong + 1) && engine_->size(wrong) == 0);
  }

  std::uint64_t unit_;
  memo::Options options_;
  std::unique_ptr<memo::Engine> engine_ = std::make_unique<memo::Engine>();
  std::vector<Block> alive_;
  std::uint64_t next_id_ = 0;
  unsigned forks_ = 0;
  memo::Nanos now_{1};
};

void run(const std::uint8_t* data, std::size_t size) {
  const std::size_t disturbed = data[1] % 16;
  const bool ends_empty = (data[2] & 1) != 0;
  std::vector<Call> calls;
  for (std::size_t at = 3; at + 3 <= size; at += 3) {
    calls.push_back({data[at], data[at + 1], data[at + 2]});
  }
  if (calls.size() <= disturbed) {
    return;
  }
  // The first few calls are no part of the iteration: each comes once, in the round that it names.
  const std::vector<Call> extra(calls.begin(),
                                calls.begin() + static_cast<std::ptrdiff_t>(disturbed));
  calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(disturbed));
  const std::size_t repeats =
      std::min<std::size_t>(1 + data[0] % 40, 1 + kMostCalls / calls.size());
  Model model((data[2] & 6) == 0 ? 65'536 : 4096);
  for (std::size_t round = 0; round < repeats; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      for (const Call& call : extra) {
        if (call.second % repeats == round && call.first % calls.size() == i) {
          model.perform(call);
          model.look();
        }
      }
      model.perform(calls[i]);
      model.look();
    }
    if (ends_empty) {
      model.release_all();
    }
  }
  model.release_all();
  require_of_seed(model.planned() > 0);
}

}  // namespace

extern "C" void* __wrap_mmap(void* address, std::size_t bytes, int protection, int flags, int file,
                             off_t offset) {
  void* got = __real_mmap(address, bytes, protection, flags, file, offset);
  if (collecting && got != MAP_FAILED && file == -1) {
    mappings().push_back({static_cast<char*>(got), static_cast<char*>(got) + bytes});
  }
  return got;
}

// The engine cuts the ends off what it reserves.
extern "C" int __wrap_munmap(void* address, std::size_t bytes) {
  auto* start = static_cast<char*>(address);
  for (Mapping& mapping : mappings()) {
    if (mapping.start == start) {
      mapping.start += bytes;
    } else if (mapping.end == start + bytes) {
      mapping.end = start;
    }
  }
  return unmap(address, bytes);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 6) {
    return 0;
  }
  memo::t_state = {};
  collecting = true;
  run(data, size);
  collecting = false;
  for (const Mapping& mapping : mappings()) {
    unmap(mapping.start, static_cast<std::size_t>(mapping.end - mapping.start));
  }
  mappings().clear();
  return 0;
}
