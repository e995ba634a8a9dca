// Random programs: iterations of allocations and frees that repeat, and then do not quite repeat.
// They drive an allocator that guesses through every kind of wrong guess.
//
// A program is a list of steps; a step allocates and says how many steps later the block is freed,
// which may lie in the next iteration. Several programs take turns, with a weather that says how
// faithfully they run. A third of them change their shape in every iteration: the sizes of all
// steps follow from a number that the iteration draws.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "tests/stress/heap.h"

extern "C" {
void memomalloc_release(void) __attribute__((weak));
void memomalloc_iteration(void) __attribute__((weak));
}

namespace stress {

struct Settings {
  std::uint64_t seed = 1;
  std::uint64_t operations = 100'000;  // allocations of each thread
  unsigned threads = 4;
  std::size_t smallest =
      16 << 10;          // bytes; sizes are spread evenly over the logarithm from here on,
  unsigned octaves = 6;  // over this many doublings
};

// Blocks on their way from one thread to another: whoever puts one in takes out what was there.
class Exchange {
 public:
  void put(const Block& block, std::uint64_t slot) {
    if (const Block* old = slots_[slot % slots_.size()].exchange(new Block(block))) {
      release(*old);
      delete old;
    }
  }
  void drain() {
    for (auto& slot : slots_) {
      if (const Block* old = slot.exchange(nullptr)) {
        release(*old);
        delete old;
      }
    }
  }

 private:
  std::array<std::atomic<Block*>, 64> slots_{};
};

struct Step {
  Kind kind;
  std::size_t size;
  std::size_t alignment;
  std::uint64_t lifetime;      // steps
  std::size_t per_token = 0;   // bytes more for each token of the iteration
  std::size_t per_square = 0;  // and for each pair of them
  unsigned site = 0;           // which of kSites functions asks for it

  [[nodiscard]] std::size_t bytes(std::size_t tokens) const {
    return size + per_token * tokens + per_square * tokens * tokens;
  }
};

// Steps of a network have call stacks of their own, and changing shapes are told by them.
constexpr unsigned kSites = 24;
template <unsigned site>
[[gnu::noinline]] Block allocate_at(const Step& step, std::size_t size, std::uint64_t id) {
  const Block block = allocate(step.kind, size, step.alignment, id);
  asm volatile("" ::"i"(site));  // keeps the functions apart, and the calls from the tail
  return block;
}
using AllocateAt = Block (*)(const Step&, std::size_t, std::uint64_t);
template <unsigned... sites>
constexpr std::array<AllocateAt, sizeof...(sites)> all_sites(
    std::integer_sequence<unsigned, sites...>) {
  return {allocate_at<sites>...};
}
inline constexpr auto kAllocateAt = all_sites(std::make_integer_sequence<unsigned, kSites>());

// In how many of 1024 steps something else happens than the program says.
struct Weather {
  std::uint64_t extra, missing, other_size, other_life, escape, resized, abort, scaled, release;
};
inline constexpr Weather kWeathers[] = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0},             // exactly periodic
    {4, 0, 0, 0, 0, 0, 0, 0, 0},             // now and then a call more,
    {0, 4, 0, 0, 0, 0, 0, 0, 0},             // a call less,
    {0, 0, 8, 0, 0, 0, 0, 0, 0},             // another size,
    {0, 0, 0, 30, 10, 0, 0, 0, 0},           // blocks that live longer or are freed elsewhere,
    {0, 0, 0, 0, 0, 40, 0, 0, 0},            // realloc of whatever is alive,
    {0, 0, 0, 0, 0, 0, 8, 0, 0},             // iterations that end half way,
    {0, 0, 0, 0, 0, 0, 0, 40, 2},            // all sizes scaled, slabs given back
    {60, 60, 60, 60, 30, 30, 10, 20, 1},     // everything at once
    {400, 300, 300, 300, 100, 100, 0, 0, 0}  // no repetition left
};

class Worker {
 public:
  Worker(const Settings& settings, unsigned index, Exchange& exchange)
      : settings_(settings),
        random_(settings.seed * 1'000'003 + index),
        exchange_(exchange),
        next_id_(std::uint64_t{index + 1} << 40) {}

  // Runs until the operations are used up and frees everything of its own.
  void run() {
    while (done_ < settings_.operations) {
      changing_ = random_.chance(1, 3);
      std::vector<std::vector<Step>> programs(changing_ ? 1 : 1 + random_.below(3));
      for (auto& program : programs) {
        program = changing_ ? invent_changing() : invent();
      }
      const Weather& weather = kWeathers[random_.below(std::size(kWeathers))];
      // Changing shapes are looked for when nothing else was found.
      const std::uint64_t iterations = (changing_ ? 120 : 8) + random_.below(60);
      // Iterations before the next program's turn.
      const std::uint64_t turn = 1 + random_.below(12);
      for (std::uint64_t i = 0; i < iterations && done_ < settings_.operations; ++i) {
        const bool calm = changing_ && i < iterations / 2;
        iterate(programs[i / turn % programs.size()], calm ? kWeathers[0] : weather);
      }
      if (random_.chance(1, 2)) {
        free_due(UINT64_MAX);
      }
    }
    free_due(UINT64_MAX);
  }

 private:
  std::size_t any_size() {
    const std::size_t base = settings_.smallest << random_.below(settings_.octaves);
    return base + random_.below(base);
  }

  std::vector<Step> invent() {
    std::vector<Step> steps(3 + random_.below(60));
    for (Step& step : steps) {
      step.kind = static_cast<Kind>(random_.below(static_cast<std::uint64_t>(Kind::kCount)));
      step.size = any_size();
      step.alignment = std::size_t{8} << random_.below(random_.chance(1, 20) ? 15 : 10);
      step.lifetime = 1 + random_.below(random_.chance(1, 8) ? steps.size() + 5 : 8);
    }
    // Inner repeats, such as the layers of a network, look like iterations.
    if (random_.chance(1, 3)) {
      const std::size_t layer = 1 + random_.below(steps.size());
      for (std::size_t i = layer; i < steps.size(); ++i) {
        steps[i] = steps[i - layer];
      }
    }
    return steps;
  }

  // A network on sequences of any length: most sizes grow with the tokens, some with their square,
  // and some stay. What an iteration takes it frees, but for a block now and then.
  std::vector<Step> invent_changing() {
    std::vector<Step> steps(16 + random_.below(40));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      Step& step = steps[i];
      step = {.kind = static_cast<Kind>(random_.below(static_cast<std::uint64_t>(Kind::kCount))),
              .size = 0,
              .alignment = std::size_t{8} << random_.below(8),
              .lifetime = 1 + random_.below(8),
              .site = static_cast<unsigned>(random_.below(kSites))};
      if (!random_.chance(1, 50)) {
        step.lifetime = std::min(step.lifetime, steps.size() - i);
      }
      const std::uint64_t sort = i == 0 ? 0 : random_.below(8);
      if (sort == 7) {
        step.size = any_size();
      } else if (sort == 6) {
        step.per_square = 16 * (1 + random_.below(4));
      } else {
        step.per_token = 768 << random_.below(4);
      }
    }
    return steps;
  }

  void iterate(const std::vector<Step>& program, const Weather& weather) {
    const std::size_t tokens = changing_ ? 20 + random_.below(200) : 0;
    const auto now = [&](std::uint64_t part) { return part != 0 && random_.chance(part, 1024); };
    const std::uint64_t shift = now(weather.scaled * 8) ? 1 + random_.below(3) : 0;
    if (memomalloc_iteration != nullptr && random_.chance(1, 4)) {
      memomalloc_iteration();
    }
    for (const Step& step : program) {
      if (now(weather.missing)) {
        continue;
      }
      if (now(weather.abort)) {
        free_due(UINT64_MAX);
        return;
      }
      if (now(weather.extra)) {
        take({.kind = Kind::kMalloc,
              .size = any_size(),
              .alignment = 8,
              .lifetime = 1 + random_.below(20)},
             false);
      }
      Step changed = step;
      changed.size = now(weather.other_size) ? any_size() : scaled(step.bytes(tokens), shift);
      changed.lifetime = now(weather.other_life) ? 1 + random_.below(200) : step.lifetime;
      take(changed, now(weather.escape));
      if (now(weather.resized)) {
        auto chosen = alive_.begin();
        if (chosen != alive_.end()) {
          resize(chosen->second, any_size());
        }
      }
      if (now(weather.release) && memomalloc_release != nullptr) {
        memomalloc_release();
      }
    }
  }

  static std::size_t scaled(std::size_t size, std::uint64_t shift) {
    return size + (size >> 2) * shift;
  }

  void take(const Step& step, bool escapes) {
    const Block block = kAllocateAt[step.site](step, step.size, next_id_++);
    ++done_;
    ++time_;
    if (escapes) {
      exchange_.put(block, random_.next());
    } else {
      alive_.emplace(time_ + step.lifetime, block);
    }
    free_due(time_);
  }

  // Frees all blocks whose time has come.
  void free_due(std::uint64_t time) {
    while (!alive_.empty() && alive_.begin()->first <= time) {
      release(alive_.begin()->second);
      alive_.erase(alive_.begin());
    }
  }

  const Settings& settings_;
  Random random_;
  Exchange& exchange_;
  std::uint64_t next_id_;
  bool changing_ = false;  // the iterations' sizes change with their tokens
  std::uint64_t done_ = 0;
  std::uint64_t time_ = 0;                     // allocations made so far
  std::multimap<std::uint64_t, Block> alive_;  // by the time of their free
};

// Runs the threads to their end. Every thread but the first is replaced a few times by a new one,
// so that threads end while their blocks are alive elsewhere.
inline void run_random_programs(const Settings& settings) {
  g_seed = settings.seed;
  constexpr unsigned kGenerations = 4;
  Settings part = settings;
  part.operations = settings.operations / kGenerations;
  static Exchange exchange;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < settings.threads; ++i) {
    threads.emplace_back([&part, i] {
      for (unsigned generation = 0; generation < kGenerations; ++generation) {
        const unsigned index = i * kGenerations + generation;
        if (i == 0) {
          Worker(part, index, exchange).run();
        } else {
          std::thread([&part, index] { Worker(part, index, exchange).run(); }).join();
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  exchange.drain();
}

}  // namespace stress
