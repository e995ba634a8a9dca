// Plays traces. Between the first and the last event nothing but the trace allocates. Cold.
#include "src/cli/compare/replayer.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "src/cli/base/process.h"
#include "src/cli/trace/trace_reader.h"

namespace memo::cli {
namespace {

constexpr std::uint64_t kPage = 4096;

void* allocate(const ReplayEvent& event) {
  void* block = nullptr;
  switch (event.op) {
    case Op::k_malloc:
      return std::malloc(event.size);
    case Op::k_calloc:
      return std::calloc(1, event.size);
    case Op::k_realloc:
      return std::realloc(nullptr, event.size);
    case Op::k_posix_memalign: {
      const std::size_t alignment = std::max<std::size_t>(event.alignment, sizeof(void*));
      return posix_memalign(&block, alignment, event.size) == 0 ? block : nullptr;
    }
    case Op::k_aligned_alloc:
      return std::aligned_alloc(event.alignment, event.size);
    case Op::k_memalign:
      return memalign(event.alignment, event.size);
    case Op::k_valloc:
      return valloc(event.size);
    case Op::k_pvalloc:
      return pvalloc(event.size);
  }
  return nullptr;
}

void touch(void* block, std::uint64_t size) {
  auto* bytes = static_cast<volatile char*>(block);
  for (std::uint64_t at = 0; at < size; at += kPage) {
    bytes[at] = 1;
  }
}

class Player {
 public:
  Player(const ReplayTrace& trace, int iterations, bool touch)
      : trace_(trace), iterations_(iterations), touch_(touch), blocks_(trace.blocks) {
    result_.seconds.resize(static_cast<std::size_t>(iterations));
    result_.addresses.resize(trace.blocks);
    turns_.resize(trace.threads);
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      turns_[trace.events[i].thread].push_back(i);
    }
  }

  ReplayResult play() {
    if (trace_.events.empty()) {
      return std::move(result_);
    }
    std::vector<std::thread> workers;
    try {
      for (std::uint32_t i = 1; i < trace_.threads; ++i) {
        workers.emplace_back([this, i] {
          start_.wait(kNotYet);
          work(i);
        });
      }
    } catch (const std::system_error&) {  // a limit on threads or on addresses
      result_.missing_threads = trace_.threads - 1 - static_cast<std::uint32_t>(workers.size());
    }
    start_ = result_.missing_threads == 0 ? kPlay : kGiveUp;
    start_.notify_all();
    started_ = monotonic_seconds();
    work(0);
    for (std::thread& worker : workers) {
      worker.join();
    }
    return std::move(result_);
  }

 private:
  // One thread's events, each when all before it have happened. The thread that plays the last
  // event of an iteration ends it.
  void work(std::uint32_t thread) {
    if (start_ == kGiveUp) {
      return;
    }
    const auto count = static_cast<std::uint32_t>(trace_.events.size());
    for (int iteration = 0; iteration < iterations_; ++iteration) {
      const std::uint32_t base = static_cast<std::uint32_t>(iteration) * count;
      for (const std::uint32_t at : turns_[thread]) {
        wait_for_turn(base + at);
        perform(trace_.events[at]);
        if (at + 1 == count) {
          end_iteration(static_cast<std::size_t>(iteration));
        }
        pass_on(base + at + 1);
      }
    }
  }

  // Turns are counted modulo 2^32; all threads are within one trace of each other.
  void wait_for_turn(std::uint32_t turn) {
    for (std::uint32_t now = 0; (now = turn_.load(std::memory_order_acquire)) != turn;) {
      turn_.wait(now, std::memory_order_acquire);
    }
  }

  void pass_on(std::uint32_t turn) {
    turn_.store(turn, std::memory_order_release);
    if (trace_.threads > 1) {
      turn_.notify_all();
    }
  }

  void perform(const ReplayEvent& event) {
    void*& block = blocks_[event.block];
    if (event.kind == TraceRow::Kind::kFree) {
      std::free(block);
      block = nullptr;
      return;
    }
    block = allocate(event);
    if (block == nullptr && event.size > 0) {
      result_.refused_bytes = event.size;
      return;
    }
    result_.addresses[event.block] = reinterpret_cast<std::uintptr_t>(block);
    if (touch_) {
      touch(block, event.size);
    }
  }

  void end_iteration(std::size_t iteration) {
    for (const std::uint32_t left : trace_.left) {
      std::free(blocks_[left]);
      blocks_[left] = nullptr;
    }
    const double now = monotonic_seconds();
    result_.seconds[iteration] = now - started_;
    started_ = now;
  }

  const ReplayTrace& trace_;
  const int iterations_;
  const bool touch_;
  std::vector<void*> blocks_;
  std::vector<std::vector<std::uint32_t>> turns_;  // thread -> its events
  std::atomic<std::uint32_t> turn_ = 0;
  enum Start { kNotYet, kPlay, kGiveUp };
  std::atomic<Start> start_ = kNotYet;  // by all threads together, or by none
  double started_ = 0;
  ReplayResult result_;  // written by the thread whose turn it is
};

// Gives blocks and threads numbers from 0 on.
class Numbers {
 public:
  explicit Numbers(ReplayTrace& trace) : trace_(trace) {}

  std::string add(const TraceRow& row) {
    if (row.kind == TraceRow::Kind::kMark) {
      return "";
    }
    const auto [thread, is_new] = threads_.try_emplace(row.thread, trace_.threads);
    if (is_new) {
      ++trace_.threads;
      trace_.thread_numbers.push_back(row.thread);
    }
    ReplayEvent event{row.kind, row.op, thread->second, 0, row.size, row.alignment};
    if (row.kind == TraceRow::Kind::kAllocate) {
      event.block = trace_.blocks++;
      trace_.bytes += row.size;
      if (!alive_.try_emplace(row.block, event.block).second) {
        return "block " + std::to_string(row.block) + " is allocated twice";
      }
    } else {
      const auto found = alive_.find(row.block);
      if (found == alive_.end()) {
        return "block " + std::to_string(row.block) + " is freed but is not allocated";
      }
      event.block = found->second;
      alive_.erase(found);
    }
    trace_.events.push_back(event);
    return "";
  }

  void finish() {
    for (const auto& [block, index] : alive_) {
      trace_.left.push_back(index);
    }
    std::sort(trace_.left.begin(), trace_.left.end());
  }

 private:
  ReplayTrace& trace_;
  std::unordered_map<std::uint64_t, std::uint32_t> alive_;
  std::unordered_map<std::uint32_t, std::uint32_t> threads_;
};

}  // namespace

std::string read_replay(const std::string& path, ReplayTrace& trace) {
  Numbers numbers(trace);
  std::string error = read_trace(path, [&](const TraceRow& row) { return numbers.add(row); });
  numbers.finish();
  return error;
}

ReplayResult replay_trace(const ReplayTrace& trace, int iterations, bool touch) {
  return Player(trace, iterations, touch).play();
}

}  // namespace memo::cli
