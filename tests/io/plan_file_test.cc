// Plan files: what is saved is loaded, and what is cut, flipped, foreign or newer is refused whole,
// with the reason.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "src/follow/layout.h"
#include "src/follow/plan.h"
#include "src/learn/learn.h"
#include "tests/support/plan_files.h"
#include "tests/support/process.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace memo {
namespace {

using testing::load_plan;
using testing::read_file;
using testing::save_plan;
using testing::TempFolder;

constexpr std::uint64_t kAnySlab = UINT64_MAX;
constexpr std::size_t kHeader = 40;  // bytes: magic, version at 8, plans at 12, checksum at 32

class FileFixture {
 protected:
  FileFixture() {
    for (std::uint32_t plan = 0; plan < 2; ++plan) {
      std::vector<Step>& steps = steps_[plan];
      for (std::uint64_t i = 0; i < 5 + plan; ++i) {
        steps.push_back({70'000 + i * 4096, i * 32 * kGranule, 0xABCDEF00 + i, 6});
        steps.back().lifetime = static_cast<std::uint32_t>(1 + i);
        if (plan == 1) {  // symbolic: each step is i * 4096 bytes larger than the first
          steps.back().lifetime = static_cast<std::uint32_t>(6 - i);
          steps.back().elastic = i == 3;
          rules_.push_back({.rule = {70'000 + static_cast<double>(i) * 4096, 1, 0, 70'000, 0},
                            .site = 0xABCDEF00 + i,
                            .lifetime = steps.back().lifetime,
                            .alignment_log2 = 6,
                            .elastic = i == 3,
                            .planned = i < 5});
        }
      }
      steps.back().offset = kUnplanned;
      schedules_[plan] = {steps.data(), static_cast<std::uint32_t>(steps.size()),
                          (200 + plan) * kGranule, 1000 + plan, 0};
      saved_[plan] = {&schedules_[plan], static_cast<std::uint32_t>(steps.size() - plan)};
    }
    symbolic_ = {rules_.data(), static_cast<std::uint32_t>(rules_.size()), nullptr, 0, 65'536};
    schedules_[1].symbolic = &symbolic_;
    schedules_[1].lowest = true;  // no other is written
    for (std::uint32_t plan = 0; plan < 2; ++plan) {
      REQUIRE(save_plan(path_, saved_[plan]));
      good_[plan] = read_file(path_);
    }
  }

  struct Loaded {
    LoadedPlan plan;
    bool taken = false;
    std::string problem;
  };
  // Writes `bytes` and loads them.
  void load(const std::string& bytes, Loaded& loaded, std::uint64_t most_height = kAnySlab) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    std::string_view problem;
    loaded.taken = load_plan(path_, most_height, loaded.plan, &problem);
    loaded.problem = problem;
  }
  // What is said of `bytes`, whose plan may not be taken.
  std::string refusal(const std::string& bytes) {
    Loaded loaded;
    load(bytes, loaded);
    CHECK_FALSE(loaded.taken);
    return loaded.problem;
  }
  // `bytes` with the checksum that belongs to them.
  static std::string sealed(std::string bytes) {
    const std::uint64_t sum = XXH3_64bits(bytes.data() + kHeader, bytes.size() - kHeader);
    std::memcpy(bytes.data() + 32, &sum, sizeof sum);
    return bytes;
  }

  RecursionGuard guard_;
  TempFolder folder_;
  std::string path_ = folder_.file("plans");
  std::vector<Step> steps_[2];
  std::vector<SymbolicStep> rules_;
  SymbolicPlan symbolic_;
  Schedule schedules_[2];
  SavedPlan saved_[2];
  std::string good_[2];  // the files of both
};

TEST_CASE_METHOD(FileFixture, "plan file: what is saved is loaded", "[io]") {
  Loaded loaded[2];
  for (std::uint32_t plan = 0; plan < 2; ++plan) {
    load(good_[plan], loaded[plan]);
    CHECK(loaded[plan].problem.empty());
    REQUIRE(loaded[plan].taken);
    const Schedule& schedule = *loaded[plan].plan.plan;
    CHECK(loaded[plan].plan.iteration == saved_[plan].iteration);
    CHECK(schedule.height == schedules_[plan].height);
    CHECK(schedule.lower_bound == schedules_[plan].lower_bound);
    REQUIRE(schedule.count == steps_[plan].size());
    for (std::uint32_t i = 0; i < schedule.count; ++i) {
      CHECK(schedule.steps[i].size == steps_[plan][i].size);
      CHECK(schedule.steps[i].offset == steps_[plan][i].offset);
      CHECK(schedule.steps[i].site == steps_[plan][i].site);
      CHECK(schedule.steps[i].alignment_log2 == steps_[plan][i].alignment_log2);
      CHECK(schedule.steps[i].lifetime == steps_[plan][i].lifetime);
    }
  }
  CHECK(loaded[0].plan.plan->symbolic == nullptr);
  const SymbolicPlan* symbolic = loaded[1].plan.plan->symbolic;
  REQUIRE(symbolic != nullptr);
  REQUIRE(symbolic->count == rules_.size());
  CHECK(symbolic->least == symbolic_.least);
  CHECK(symbolic->support_count == 0);
  for (std::uint32_t i = 0; i < symbolic->count; ++i) {
    const SymbolicStep& step = symbolic->steps[i];
    for (const std::uint64_t first : {70'000UL, 90'000UL, 200'000UL}) {
      CHECK(step.rule.bytes(first) == rules_[i].rule.bytes(first));
    }
    CHECK(step.site == rules_[i].site);
    CHECK(step.lifetime == rules_[i].lifetime);
    CHECK(step.alignment_log2 == rules_[i].alignment_log2);
    CHECK(step.elastic == rules_[i].elastic);
    CHECK(step.planned == rules_[i].planned);
  }
}

TEST_CASE_METHOD(FileFixture, "plan file: a symbolic plan is made anew from what was loaded",
                 "[io]") {
  Loaded loaded;
  load(good_[1], loaded);
  REQUIRE(loaded.taken);
  const Plan restored = restore(guard_, *loaded.plan.plan);
  REQUIRE(restored);
  REQUIRE(restored->symbolic != nullptr);
  CHECK(restored->symbolic->support_count == 4);  // five planned blocks, each on the one before
  CHECK(restored->height == (4 * 32 + 22) * kGranule);
  CHECK(restored->lower_bound == (18 + 19 + 20 + 21 + 22) * kGranule);
}

TEST_CASE_METHOD(FileFixture, "plan file: a symbolic plan that contradicts itself is not restored",
                 "[io]") {
  const auto refused = [&](const auto& falsify) {
    Schedule example = schedules_[1];
    std::vector<Step> steps = steps_[1];
    std::vector<SymbolicStep> rules = rules_;
    SymbolicPlan symbolic = symbolic_;
    symbolic.steps = rules.data();
    example.steps = steps.data();
    example.symbolic = &symbolic;
    falsify(steps, rules);
    const Plan restored = restore(guard_, example);
    return !restored;
  };
  using Steps = std::vector<Step>;
  using Rules = std::vector<SymbolicStep>;
  CHECK_FALSE(refused([](Steps&, Rules&) {}));
  CHECK(refused([](Steps& steps, Rules&) { steps[2].offset = steps[1].offset; }));  // overlaps
  CHECK(refused([](Steps& steps, Rules&) { steps[2].offset = steps[1].offset + kGranule; }));
  CHECK(refused([](Steps& steps, Rules&) { steps[2].offset += 1; }));          // on no granule
  CHECK(refused([](Steps& steps, Rules&) { steps[2].offset = 1ULL << 63; }));  // a negative one
  CHECK(refused([](Steps& steps, Rules&) { steps[4].lifetime = 0; }));         // is never alive
  CHECK(refused([](Steps& steps, Rules&) { steps[4].lifetime = 3; }));         // into the next
  CHECK(refused([](Steps& steps, Rules&) { steps[4].lifetime = UINT32_MAX; }));
  CHECK(refused([](Steps& steps, Rules&) { steps[3].alignment_log2 = 63; }));
  CHECK(refused([](Steps& steps, Rules&) { steps[3].size += 1; }));  // not the rule's
  CHECK(refused([](Steps&, Rules& rules) { rules[0].rule.constant = 1e300; }));
  CHECK(refused([](Steps& steps, Rules&) {
    for (Step& step : steps) {
      step.offset = kUnplanned;
    }
  }));
}

// Rules that ask for more than there is are refused by the layout.
TEST_CASE_METHOD(FileFixture, "plan file: rules without measure are not laid out", "[io]") {
  for (SymbolicStep& rule : rules_) {
    rule.rule.slope = 1e8;
    rule.rule.x0 = 70'000;
  }
  const Plan restored = restore(guard_, schedules_[1]);
  REQUIRE(restored);
  Layout layout;
  REQUIRE(layout.open(*restored->symbolic));
  CHECK(layout.lay_out(70'000, 1ULL << 40));
  CHECK_FALSE(layout.lay_out(71'000, 1ULL << 30));
  CHECK_FALSE(layout.lay_out(700'000, 1ULL << 40));
}

TEST_CASE_METHOD(FileFixture, "plan file: only after a search no lower plan is looked for",
                 "[io]") {
  const bool lowest = GENERATE(false, true);
  saved_[0].lowest = lowest;
  REQUIRE(save_plan(path_, saved_[0]));
  Loaded loaded;
  load(read_file(path_), loaded);
  REQUIRE(loaded.taken);
  CHECK(loaded.plan.plan->lowest == lowest);
}

TEST_CASE_METHOD(FileFixture, "plan file: cut anywhere, it is refused", "[io]") {
  for (const std::string& good : good_) {
    for (std::size_t size = 0; size < good.size(); ++size) {
      CAPTURE(size);
      CHECK_FALSE(refusal(good.substr(0, size)).empty());
    }
  }
}

TEST_CASE_METHOD(FileFixture, "plan file: with any bit flipped, nothing false is taken", "[io]") {
  const std::string& good = good_[GENERATE(0, 1)];
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    const std::size_t byte = bit / 8;
    const bool library = byte >= 16 && byte < 32;  // the writer's version: for people
    std::string bytes = good;
    bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit % 8));
    CAPTURE(bit);
    Loaded loaded;
    load(bytes, loaded);
    CHECK(loaded.taken == library);
    CHECK(loaded.problem.empty() == library);
  }
}

TEST_CASE_METHOD(FileFixture, "plan file: newer, foreign and extended files are named as such",
                 "[io]") {
  std::string newer = good_[0];
  ++newer[8];
  CHECK(refusal(newer) == "another version of the library wrote it");
  std::string first = good_[0];
  first[8] = 1;
  CHECK(refusal(first) == "another version of the library wrote it");
  CHECK(refusal(std::string(5000, '\0')) == "it is no plan file");
  CHECK(refusal("id,lower,upper,size\n0,0,1,5\n") == "it is no plan file");
  CHECK(refusal(good_[0].substr(0, 20)) == "it cannot be read, or is cut short");
  CHECK(refusal(good_[0] + good_[1]) == "it is damaged");
}

TEST_CASE_METHOD(FileFixture, "plan file: what a pipe holds stays there", "[io]") {
  unlink(path_.c_str());
  REQUIRE(mkfifo(path_.c_str(), 0600) == 0);
  const int pipe = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  REQUIRE(write(pipe, "id,lower", 8) == 8);
  LoadedPlan plan;
  std::string_view problem;
  CHECK_FALSE(load_plan(path_, UINT64_MAX, plan, &problem));
  CHECK_FALSE(problem.empty());
  char text[9] = "";
  CHECK(read(pipe, text, 8) == 8);
  CHECK(std::string_view(text) == "id,lower");
  close(pipe);
}

// A file that is whole, but whose plan could not be followed.
TEST_CASE_METHOD(FileFixture, "plan file: a plan that makes no sense is refused", "[io]") {
  std::string good = good_[0];
  const auto with = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    std::string bytes = good;
    std::memcpy(bytes.data() + kHeader + at, &value, size);
    return refusal(sealed(bytes));
  };
  const std::size_t step = 40;
  CHECK_FALSE(with(0, 4097, 8).empty());                   // the height is no multiple of a granule
  CHECK_FALSE(with(0, 0, 8).empty());                      // nor high enough for its steps
  CHECK_FALSE(with(16, 0, 4).empty());                     // no steps
  CHECK_FALSE(with(16, UINT32_MAX, 4).empty());            // more than the file has
  CHECK_FALSE(with(20, 0, 4).empty());                     // an iteration of nothing
  CHECK_FALSE(with(20, 100, 4).empty());                   // of more than all steps
  CHECK_FALSE(with(step, 0, 8).empty());                   // a block of no size
  CHECK_FALSE(with(step, UINT64_MAX, 8).empty());          // of more than the slab
  CHECK_FALSE(with(step + 8, 17, 8).empty());              // at no granule's start
  CHECK_FALSE(with(step + 8, 200 * kGranule, 8).empty());  // at the slab's end
  CHECK_FALSE(with(step + 24, 64, 8).empty());             // aligned to 2^64
  CHECK_FALSE(with(step + 24, 47, 8).empty());             // planned, and to more than a block has
  CHECK_FALSE(with(24, 65'536, 8).empty());                // rules that are not there
  CHECK_FALSE(with(32, 2, 8).empty());  // searched for a lower one: neither no nor yes
  good = good_[1];
  CHECK_FALSE(with(32, 0, 8).empty());  // no: of rules no other is searched for
  const std::size_t rule = step + 6 * 32;
  const std::uint64_t no_number = 0x7FF8'0000'0000'0000;
  CHECK_FALSE(with(rule, no_number, 8).empty());
  CHECK_FALSE(with(rule + 44, 2, 4).empty());  // elastic: neither no nor yes
  Loaded loaded;
  load(good, loaded, 100 * kGranule);
  CHECK_FALSE(loaded.taken);  // over the limit
  CHECK_FALSE(loaded.problem.empty());
}

TEST_CASE_METHOD(FileFixture, "plan file: what cannot be written is said", "[io]") {
  errno = 0;
  CHECK_FALSE(save_plan(folder_.file("no/such/folder"), saved_[0]));
  CHECK(errno == ENOENT);
  CHECK(folder_.entries() == 1);
}

TEST_CASE_METHOD(FileFixture,
                 "plan file: what a process of this number left half-written is no hindrance",
                 "[io]") {
  std::ofstream(path_ + "." + std::to_string(getpid()) + ".tmp") << "half";
  CHECK(save_plan(path_, saved_[0]));
  CHECK(folder_.entries() == 2);
}

}  // namespace
}  // namespace memo
