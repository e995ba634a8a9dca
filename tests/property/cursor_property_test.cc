// The cursor against plain searches: for each kind of plan, and each thing that may happen in a
// stream, it is where trying all steps says, and a health is lost when counting by hand says so.
#include "src/follow/cursor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "src/follow/placer.h"
#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::below;
using testing::OwnSchedule;
using testing::Random;

enum class Event { kNothing, kExtra, kMissing, kChanged, kJump, kSmaller, kAny };
constexpr Event kEvents[] = {Event::kNothing, Event::kExtra,   Event::kMissing, Event::kChanged,
                             Event::kJump,    Event::kSmaller, Event::kAny};

// The sizes of a loop over `sizes`, with `event` at one call in twelve.
class Calls {
 public:
  Calls(Random& random, const std::vector<std::uint64_t>& sizes, Event event)
      : random_(random), sizes_(sizes), event_(event) {}
  std::uint64_t next() {
    const Event what = event_ == Event::kAny ? kEvents[below(random_, 6)] : event_;
    if (what == Event::kNothing || below(random_, 12) != 0) {
      return sizes_[at_++ % sizes_.size()];
    }
    switch (what) {
      case Event::kExtra:
        return sizes_[below(random_, sizes_.size())];
      case Event::kMissing:
        at_ += 1 + below(random_, 12);
        return sizes_[at_++ % sizes_.size()];
      case Event::kChanged:
        ++at_;
        return 7;
      case Event::kJump:
        at_ = below(random_, sizes_.size());
        return sizes_[at_++ % sizes_.size()];
      default:
        return sizes_[at_++ % sizes_.size()] * 3 / 4;
    }
  }

 private:
  Random& random_;
  const std::vector<std::uint64_t>& sizes_;
  Event event_;
  std::uint64_t at_ = 0;
};

// Few kinds of sizes, so that places resemble each other; some steps are elastic, as in a layout.
std::vector<Step> some_steps(Random& random) {
  std::vector<Step> steps(1 + below(random, 60));
  const std::uint64_t kinds = 1 + below(random, 30);
  const bool layout = below(random, 2) == 0;
  for (Step& step : steps) {
    step.size = 4096 * (1 + below(random, kinds));
    step.elastic = layout && below(random, 4) == 0;
  }
  return steps;
}

std::vector<std::uint64_t> sizes_of(const std::vector<Step>& steps) {
  std::vector<std::uint64_t> sizes;
  for (const Step& step : steps) {
    sizes.push_back(step.size);
  }
  return sizes;
}

constexpr std::uint32_t kNone = kNoStep.count();

// A fixed plan, and the last three sizes, searched step by step.
struct FixedModel {
  const std::vector<Step>& steps;
  std::vector<std::uint64_t> calls = {0, 0, 0};

  [[nodiscard]] std::size_t count() const { return steps.size(); }
  [[nodiscard]] bool fits(std::size_t step, std::uint64_t size) const {
    const Step& one = steps[step];
    return one.size == size || (one.elastic && size < one.size && 2 * size > one.size);
  }
  // Steps from `from` on, round the end, before the first one of the size.
  [[nodiscard]] std::size_t within(std::size_t from, std::uint64_t size) const {
    std::size_t missing = 0;
    while (missing < count() && steps[(from + missing) % count()].size != size) {
      ++missing;
    }
    return missing;
  }
  // The first step at or after `from`, round the end, that ends in the last three sizes.
  [[nodiscard]] std::uint32_t with_context(std::size_t from) const {
    for (std::size_t i = 0; i < count(); ++i) {
      const std::size_t step = (from + i) % count();
      bool equal = true;
      for (std::size_t back = 0; back < 3; ++back) {
        equal = equal &&
                steps[(step + 3 * count() - back) % count()].size == calls[calls.size() - 1 - back];
      }
      if (equal) {
        return static_cast<std::uint32_t>(step);
      }
    }
    return kNone;
  }
};

TEST_CASE("cursor: a served fixed plan does what a plain search of its steps does",
          "[follow][property]") {
  for (const Event event : kEvents) {
    for (const std::uint64_t seed : testing::seeds(6)) {
      INFO("event " << static_cast<int>(event) << " seed " << seed);
      Random random(seed);
      const std::vector<Step> steps = some_steps(random);
      const OwnSchedule own(steps);
      FixedModel model{steps};
      const std::vector<std::uint64_t> sizes = sizes_of(steps);
      Calls calls(random, sizes, event);
      std::uint32_t position = 0;
      std::uint32_t sure = 0;  // the place before it was guessed
      std::uint32_t run = 0;
      Cursor cursor{StepIndex{position}};
      Recent recent;
      for (int i = 0; i < 1000; ++i) {
        const std::uint64_t size = calls.next();
        model.calls.push_back(size);
        recent.add(size);
        std::uint32_t expected = kNone;
        const std::size_t missing = model.within(sure, size);
        if (model.fits(position, size)) {
          expected = position;
          ++run;
        } else if (missing <= 8 && missing < steps.size()) {
          expected = static_cast<std::uint32_t>((sure + missing) % steps.size());
          run = missing < 3 ? 1 : 0;
        } else {
          expected = model.with_context(position);
          run = 0;
        }
        const bool far = missing > 8 || missing >= steps.size();
        const Step* step = cursor.advance(own.schedule, own.index, recent);
        REQUIRE(step == (expected == kNone ? nullptr : own.schedule.steps + expected));
        if (expected != kNone) {
          position = static_cast<std::uint32_t>((expected + 1) % steps.size());
          sure = run != 0 || far ? position : sure;
        }
        REQUIRE(cursor.position().count() == position);
        REQUIRE(cursor.run() == run);
      }
    }
  }
}

TEST_CASE("cursor: a place in a fixed plan is sought as a plain search of its steps does",
          "[follow][property]") {
  for (const Event event : kEvents) {
    for (const std::uint64_t seed : testing::seeds(6)) {
      INFO("event " << static_cast<int>(event) << " seed " << seed);
      Random random(seed);
      const std::vector<Step> steps = some_steps(random);
      const OwnSchedule own(steps);
      FixedModel model{steps};
      const std::vector<std::uint64_t> sizes = sizes_of(steps);
      Calls calls(random, sizes, event);
      std::uint32_t next = 0;  // the step expected, kNone if the place is lost
      std::uint32_t run = 0;
      Cursor cursor;
      Recent recent;
      for (int i = 0; i < 1000; ++i) {
        const std::uint64_t size = calls.next();
        model.calls.push_back(size);
        recent.add(size);
        if (next != kNone && model.fits(next, size)) {
          ++run;
        } else {
          next = model.with_context(0);
          run = next == kNone ? 0 : 3;
        }
        if (next != kNone) {
          next = static_cast<std::uint32_t>((next + 1) % steps.size());
        }
        const bool before = cursor.expects(own.schedule, size);
        Cursor strict = cursor;
        cursor.seek(own.schedule, own.index, recent);
        REQUIRE(cursor.position().count() == next);
        REQUIRE(cursor.run() == run);
        // A cursor that may only follow goes the same way, or nowhere.
        const std::uint32_t stayed = strict.position().count();
        REQUIRE(strict.follow(own.schedule, size) == before);
        REQUIRE(strict.position().count() == (before ? next : stayed));
      }
    }
  }
}

// A parametric plan, with the calls since the one that is taken for an iteration's first.
struct ParametricModel {
  const SymbolicPlan& plan;
  std::uint64_t first = 0;
  std::vector<std::uint64_t> run = {};
  std::uint32_t position = 0;

  void call(std::uint64_t size) {
    if (!run.empty()) {
      std::uint32_t seen = position;  // the next step that the engine sees
      while (seen < plan.count && plan.steps[seen].rule.bytes(first) < plan.least) {
        ++seen;
      }
      const bool too_far = seen - position >= 256 && position + 256 < plan.count;
      if (!too_far && seen == plan.count) {
        first = size;
        position = 1;
        run.push_back(size);
        return;
      }
      const std::uint64_t ruled = too_far ? 0 : plan.steps[seen].rule.bytes(first);
      if (!too_far &&
          (size == ruled || (plan.steps[seen].elastic && size < ruled && 2 * size > ruled))) {
        position = seen + 1;
        varied = varied || size != first;
        run.push_back(size);
        return;
      }
    }
    run = {size};
    first = size;
    position = 1;
    varied = false;
  }
  [[nodiscard]] bool sure(std::size_t calls) const {
    return varied && run.size() >= std::min<std::size_t>(calls, plan.count);
  }
  bool varied = false;
};

TEST_CASE("cursor: a parametric plan's place and first size are what trying them all finds",
          "[follow][property]") {
  for (const Event event : kEvents) {
    for (const std::uint64_t seed : testing::seeds(6)) {
      INFO("event " << static_cast<int>(event) << " seed " << seed);
      Random random(seed);
      const bool long_gaps = below(random, 3) == 0;
      std::vector<SymbolicStep> rules(1 + below(random, long_gaps ? 700 : 40));
      for (std::size_t i = 0; i < rules.size(); ++i) {
        const bool small = i != 0 && below(random, 300) < (long_gaps ? 298 : 60);
        rules[i].rule.slope = i == 0  ? 1.0
                              : small ? 0.01
                                      : 0.25 * static_cast<double>(below(random, 16));
        rules[i].rule.constant =
            i == 0 || small ? 0 : 4096.0 * static_cast<double>(below(random, 8));
        rules[i].elastic = below(random, 6) == 0;
      }
      const SymbolicPlan plan{
          .steps = rules.data(), .count = static_cast<std::uint32_t>(rules.size()), .least = 4096};
      Cursor cursor;
      ParametricModel model{plan};
      for (int iteration = 0; iteration < 40; ++iteration) {
        const std::uint64_t first = 4096 * (2 + below(random, 20));
        std::vector<std::uint64_t> sizes;
        for (std::uint32_t i = 0; i < plan.count; ++i) {
          if (i == 0 || !plan.hidden(StepIndex{i}, first)) {
            sizes.push_back(rules[i].rule.bytes(first));
          }
        }
        Calls calls(random, sizes, event);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          const std::uint64_t size = calls.next();
          cursor.seek(plan, size);
          model.call(size);
          REQUIRE(cursor.first() == model.first);
          REQUIRE(cursor.position().count() == model.position);
          REQUIRE(cursor.run() == model.run.size());
          for (const std::uint32_t needed : {8U, 32U}) {
            REQUIRE(cursor.sure(plan, needed) == model.sure(needed));
          }
        }
      }
    }
  }
}

TEST_CASE("health: is lost and unfit when its windows say so", "[follow][property]") {
  for (const std::uint64_t seed : testing::seeds(30)) {
    INFO("seed " << seed);
    Random random(seed);
    const auto count = static_cast<std::uint32_t>(1 + below(random, 200));
    const std::uint64_t bad = below(random, 100);  // percent of calls that do not match
    Health health;
    struct Call {
      bool matched;
      std::uint64_t bytes;
    };
    std::vector<Call> window;
    std::uint32_t poor = 0;
    std::size_t in_row = 0;
    bool lost = false;
    for (int i = 0; i < 5000; ++i) {
      const Call call{below(random, 100) >= bad, 4096 * (1 + below(random, 100))};
      window.push_back(call);
      in_row = call.matched ? 0 : in_row + 1;
      health.note(call.matched, call.bytes, count);
      if (window.size() >= std::max(32U, count) || in_row >= 256) {
        std::uint64_t bytes = 0;
        std::uint64_t missed_bytes = 0;
        std::size_t misses = 0;
        for (const Call& one : window) {
          bytes += one.bytes;
          missed_bytes += one.matched ? 0 : one.bytes;
          misses += one.matched ? 0 : 1;
        }
        poor = 3 * misses > window.size() || 8 * missed_bytes > bytes ? poor + 1 : 0;
        lost = 2 * misses > window.size() || in_row >= 256 || poor >= 8;
        window.clear();
      }
      REQUIRE(health.lost() == lost);
      REQUIRE(health.unfit() == (poor >= 8));
      REQUIRE(health.misses_in_row() == in_row);
    }
  }
}

}  // namespace
}  // namespace memo
