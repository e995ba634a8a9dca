// Fuzzes the reader of plan files, on bytes in memory: opening files is a hundred times slower, and
// the unit tests' part. An input whose first byte is odd gets a header that is right, so
// that what lies behind the checksum is reached as well.
//
// Whatever the file: either no plan and a reason, or one that a server can follow (each step inside
// the slab, on a granule), which is the same when it is saved and loaded once more; and a symbolic
// plan is refused, or keeps blocks apart in every shape.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "src/base/guard.h"
#include "src/follow/layout.h"
#include "src/io/plan_records.h"
#include "src/learn/learn.h"
#include "tests/fuzz/require.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

// Bytes of the header, and of its magic, version and count of plans; the writer's name is next, then
// the checksum.
constexpr std::size_t kHeader = 40;
constexpr std::size_t kFixed = 16;
constexpr std::uint64_t kMaxHeight = 1ULL << 30;
constexpr std::uint64_t kMaxBytes = 1ULL << 20;

void check(const memo::LoadedPlan& plan) {
  const memo::Schedule& schedule = *plan.plan;
  require(schedule.count > 0 && plan.iteration > 0 && plan.iteration <= schedule.count);
  require(schedule.height <= kMaxHeight && schedule.height % memo::kGranule == 0);
  for (std::uint32_t i = 0; i < schedule.count; ++i) {
    const memo::Step& step = schedule.steps[i];
    require(step.size > 0 && step.alignment_log2 < 64);
    require(step.offset == memo::kUnplanned ||
            (step.offset % memo::kGranule == 0 && step.offset + step.size <= schedule.height));
  }
}

// Whatever the file said: a symbolic plan that is accepted keeps blocks alive together apart, in
// every shape.
void check_shapes(const memo::SymbolicPlan& plan) {
  static memo::Layout layout;
  require(layout.open(plan));
  for (const std::uint64_t first : {1ULL, 65'536ULL, 1'000'000ULL, 1ULL << 40, ~0ULL}) {
    if (!layout.lay_out(first, kMaxHeight)) {
      continue;
    }
    const memo::Schedule& laid = *layout.schedule();
    const std::span<const memo::Step> steps(laid.steps, laid.count);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].offset == memo::kUnplanned) {
        continue;
      }
      require(steps[i].offset % memo::kGranule == 0 &&
              steps[i].offset + steps[i].size <= laid.height && laid.height <= kMaxHeight);
      for (std::size_t j = i + 1; laid.count == plan.count && j < i + steps[i].lifetime; ++j) {
        require(steps[j].offset == memo::kUnplanned ||
                steps[i].offset + steps[i].size <= steps[j].offset ||
                steps[j].offset + steps[j].size <= steps[i].offset);
      }
    }
  }
}

std::vector<char> save(const memo::LoadedPlan& plan) {
  return memo::format_plan({plan.plan.get(), plan.iteration}, kMaxBytes);
}

std::uint64_t checksum(const char* file, std::size_t size) {
  return XXH3_64bits(file + kHeader, size - kHeader);
}

// The header as the library writes it, of whatever version: that of a plan of one step.
const std::vector<char>& written_header() {
  static const std::vector<char> kHeaderBytes = [] {
    const memo::Step step{.size = memo::kGranule, .offset = 0};
    const memo::Schedule one{.steps = &step, .count = 1, .height = memo::kGranule};
    std::vector<char> file = memo::format_plan({&one, 1}, kMaxBytes);
    const std::uint64_t sum = checksum(file.data(), file.size());
    require(std::memcmp(file.data() + kHeader - sizeof sum, &sum, sizeof sum) == 0);
    file.resize(kHeader);
    return file;
  }();
  return kHeaderBytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size > kHeader && (data[0] & 1) != 0) {
    const std::uint64_t sum = checksum(bytes.data(), size);
    std::memcpy(bytes.data(), written_header().data(), kFixed);
    std::memcpy(bytes.data() + kHeader - sizeof sum, &sum, sizeof sum);
  }
  const memo::RecursionGuard guard;
  memo::LoadedPlan plan;
  std::string_view problem;
  const bool taken = memo::parse_plan(bytes, kMaxHeight, plan, &problem);
  require(taken == problem.empty());
  require_of_seed(taken);
  if (!taken) {
    return 0;
  }
  check(plan);
  if (plan.plan->symbolic != nullptr) {
    require(!plan.plan->symbolic->complete());
    const memo::Plan restored = memo::restore(guard, *plan.plan);
    require_of_seed(static_cast<bool>(restored));
    if (restored) {
      check_shapes(*restored->symbolic);
    }
  }
  memo::LoadedPlan again;
  const std::vector<char> saved = save(plan);
  require(memo::parse_plan(saved, kMaxHeight, again, &problem));
  require(save(again) == saved);
  return 0;
}
