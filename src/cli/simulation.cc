// See simulation.h. Cold.
#include "src/cli/simulation.h"

#include <bit>
#include <memory>
#include <unordered_map>

#include "src/base/guard.h"
#include "src/base/tuning.h"
#include "src/follow/context_index.h"
#include "src/follow/placer.h"
#include "src/follow/repeat.h"
#include "src/learn/lifetimes.h"
#include "src/serve/page_map.h"

namespace memo::cli {
namespace {

// A page map whose arrays grow with the plans' heights.
class Pages {
 public:
  void grow(std::uint64_t height) {
    const std::uint64_t granules = height / kGranule;
    if (granules > length_.size()) {
      state_.resize(granules / sizeof(std::uint64_t) + 1);
      length_.resize(granules);
      map_ = PageMap(reinterpret_cast<std::uint8_t*>(state_.data()), length_.data());
    }
  }
  PageMap& map() { return map_; }

 private:
  std::vector<std::uint64_t> state_;  // words, for the alignment that the map asks for
  std::vector<std::uint32_t> length_;
  PageMap map_;
};

class Simulation {
 public:
  Simulation(const Stream& stream, const LearnOptions& options)
      : stream_(stream),
        options_(options),
        history_(std::make_unique<std::uint32_t[]>(tuning::kMaxLog)) {
    options_.marks = {};
    repeat_.start(history_.get(), tuning::kMaxLog);
  }

  Analysis run() {
    for (const StreamEvent& event : stream_.events) {
      if (event.is_free) {
        free(event.allocation);
      } else if (plan_) {
        serve(event.allocation);
      } else {
        learn(event.allocation);
      }
    }
    analysis_.repeats = plan_ && matches_at_end();
    return std::move(analysis_);
  }

 private:
  void count(std::uint32_t index) {
    const std::uint64_t size = stream_.allocations[index].size;
    ++analysis_.allocations;
    analysis_.bytes += size;
    analysis_.bytes_since_lock += analysis_.plans > 0 ? size : 0;
  }

  void learn(std::uint32_t index) {
    count(index);
    if (log_.empty()) {
      log_start_ = index;
    }
    log_.push_back(stream_.allocations[index]);
    log_.back().death = kAlive;
    if (repeat_.add(log_.back().size, log_.back().alignment_log2)) {
      look();
    }
  }

  void look() {
    options_.min_run = repeat_.required();
    Period period;
    const RecursionGuard guard;
    plan_ = memo::learn(guard, log_, options_, &period);
    if (!plan_) {
      const auto found = find_period(log_, options_.min_run);
      analysis_.unplanned = found ? found->length : 0;
      return;
    }
    PlanInput input = plan_input(log_, period);
    analysis_.left_out =
        (plan_->count - static_cast<std::uint32_t>(input.step_of.size())) / period.unroll;
    analysis_.problem = std::move(input.problem);
    analysis_.wrapping = input.wrapping;
    analysis_.lower_bound = plan_->lower_bound;
    analysis_.height = plan_->height;
    analysis_.plan_seconds += plan_->plan_seconds;
    analysis_.locked_after = analysis_.plans == 0 ? analysis_.allocations : analysis_.locked_after;
    ++analysis_.plans;
    const auto next = static_cast<std::uint32_t>((log_.size() - period.first) % plan_->count);
    recent_misses_.assign(period.length, false);
    period.first += log_start_;
    analysis_.period = period;
    start_serving(next);
  }

  void start_serving(std::uint32_t position) {
    pages_.grow(plan_->height);
    placer_.start(plan_.get(), &plan_.index(), Cursor(position));
    served_calls_ = 0;
    log_.clear();
  }

  void serve(std::uint32_t index) {
    count(index);
    const Allocation& asked = stream_.allocations[index];
    const Step* step = placer_.next(asked.size);
    recent_misses_[serve_count_++ % recent_misses_.size()] = step == nullptr;
    if (step != nullptr && step->offset != kUnplanned &&
        step->offset % (std::uint64_t{1} << asked.alignment_log2) == 0 &&
        pages_.map().claim(step->offset / kGranule, granules_of(asked.size)).granted) {
      placed_[index] = step->offset / kGranule;
      analysis_.served_bytes += asked.size;
      ++served_calls_;
    }
    if (placer_.health().lost()) {
      repeat_.lock_broke(served_calls_);
      placer_.stop();
      plan_ = Plan();
    }
  }

  void free(std::uint32_t index) {
    if (const auto at = placed_.find(index); at != placed_.end()) {
      pages_.map().release(at->second);
      placed_.erase(at);
    } else if (index >= log_start_ && index - log_start_ < log_.size()) {
      log_[index - log_start_].death = static_cast<std::uint32_t>(log_.size());
    }
  }

  // Most of the last iteration's calls were the schedule's.
  bool matches_at_end() const {
    std::size_t misses = 0;
    for (const bool missed : recent_misses_) {
      misses += static_cast<std::size_t>(missed);
    }
    return 2 * misses <= recent_misses_.size();
  }

  const Stream& stream_;
  LearnOptions options_;
  Analysis analysis_;
  std::unique_ptr<std::uint32_t[]> history_;
  Repeat repeat_;
  std::vector<Allocation> log_;  // while learning: the stream from log_start_ on, as far as known
  std::uint32_t log_start_ = 0;
  Plan plan_;  // while serving
  Placer placer_;
  Pages pages_;
  std::unordered_map<std::uint32_t, std::uint64_t> placed_;  // allocation -> first granule
  std::vector<bool> recent_misses_;                          // of the last iteration's calls
  std::uint64_t serve_count_ = 0;
  std::uint32_t served_calls_ = 0;
};

}  // namespace

std::optional<SymbolicInput> find_changing_shapes(std::span<const Allocation> stream) {
  std::optional<SymbolicInput> found = symbolic_input(stream);
  for (const std::size_t cut : kCuts) {
    if (!found) {
      found = symbolic_input(stream.first(stream.size() - stream.size() / cut));
    }
  }
  return found;
}

Analysis simulate(const Stream& stream, const LearnOptions& options) {
  return Simulation(stream, options).run();
}

}  // namespace memo::cli
