// The plans of several processes in one file (src/io/plan_merge.cc).
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "src/io/plan_file.h"
#include "src/io/shared_file.h"

namespace memo {
namespace {

// A loop of blocks of these many pages, one behind the other, in a slab `more` pages higher than
// they need.
class Loop {
 public:
  explicit Loop(const std::vector<std::uint64_t>& pages, std::uint64_t more = 0) {
    std::uint64_t offset = 0;
    for (const std::uint64_t count : pages) {
      steps_.push_back({.size = count * kGranule, .offset = offset});
      offset += count * kGranule;
    }
    schedule_.steps = steps_.data();
    schedule_.count = static_cast<std::uint32_t>(steps_.size());
    schedule_.lower_bound = offset;
    schedule_.height = offset + more * kGranule;
  }
  [[nodiscard]] SavedPlan saved() const { return {&schedule_, schedule_.count}; }

 private:
  std::vector<Step> steps_;
  Schedule schedule_;
};

class PlanFile {
 public:
  PlanFile() {
    char name[] = "/tmp/memomalloc-merge-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    folder_ = name;
  }
  ~PlanFile() { std::filesystem::remove_all(folder_); }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/plan"; }
  void merge(const std::vector<SavedPlan>& plans) const {
    const RecursionGuard guard;
    REQUIRE(merge_plans(guard, path().c_str(), plans, Trust::kOwner));
  }
  // The heights of what the file holds, in pages.
  [[nodiscard]] std::vector<std::uint64_t> heights() const {
    const RecursionGuard guard;
    LoadedPlan plans[64];
    std::string_view problem;
    const std::uint32_t count = load_plans(guard, path().c_str(), UINT64_MAX, plans, &problem);
    REQUIRE(problem.empty());
    std::vector<std::uint64_t> found;
    for (std::uint32_t i = 0; i < count; ++i) {
      found.push_back(plans[i].plan->height / kGranule);
    }
    return found;
  }

 private:
  std::string folder_;
};

using Heights = std::vector<std::uint64_t>;

TEST_CASE("plan merge: a file holds the loops of all who wrote it, each once", "[io]") {
  const PlanFile file;
  const Loop a({30, 40, 50});
  const Loop b({30, 40, 51});
  const Loop longer({30, 40, 50, 30, 40, 50});
  file.merge({a.saved()});
  CHECK(file.heights() == Heights{120});
  file.merge({b.saved(), longer.saved()});
  CHECK(file.heights() == Heights{121, 240, 120});
  file.merge({a.saved()});
  CHECK(file.heights() == Heights{120, 121, 240});
}

TEST_CASE("plan merge: of two plans of one loop the lower one stays, wherever they begin", "[io]") {
  const PlanFile file;
  file.merge({Loop({30, 40, 30, 50}, 9).saved()});
  file.merge({Loop({30, 50, 30, 40}, 3).saved()});
  CHECK(file.heights() == Heights{153});
  file.merge({Loop({40, 30, 50, 30}, 5).saved()});
  CHECK(file.heights() == Heights{153});
  // The same blocks in another order are another loop.
  file.merge({Loop({40, 30, 30, 50}).saved()});
  CHECK(file.heights() == Heights{150, 153});
}

TEST_CASE("plan merge: what cannot be read is replaced", "[io]") {
  const PlanFile file;
  std::FILE* damaged = std::fopen(file.path().c_str(), "w");
  std::fputs("MEMOPLAN and no more", damaged);
  std::fclose(damaged);
  file.merge({Loop({30, 40}).saved()});
  CHECK(file.heights() == Heights{70});
}

TEST_CASE("shared file: its mark tells whether another has written it", "[io]") {
  const PlanFile file;
  CHECK(FileMark::of(file.path().c_str()) == FileMark());
  file.merge({Loop({30, 40}).saved()});
  const FileMark mark = FileMark::of(file.path().c_str());
  CHECK(mark == FileMark::of(file.path().c_str()));
  CHECK_FALSE(mark == FileMark());
  file.merge({Loop({30, 40}).saved()});
  CHECK_FALSE(mark == FileMark::of(file.path().c_str()));
}

TEST_CASE("shared file: a folder that is not to be had is not waited for", "[io]") {
  const PlanFile file;
  const FolderLock first(file.path().c_str());
  const Nanos before = os::nanoseconds();
  const FolderLock second(file.path().c_str());
  const FolderLock nowhere("/no/such/folder/plan");
  // Generous: a processor that others use, too.
  CHECK(os::nanoseconds() - before < 20 * os::kSecond);
}

}  // namespace
}  // namespace memo
