// Plan files and the rights of other users: who may have written one, who may read what replaces
// it; and how large one may be.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "src/base/tuning.h"
#include "tests/support/plan_files.h"
#include "tests/support/process.h"
#include "tests/support/skip.h"

namespace memo {
namespace {

using testing::load_plan;
using testing::read_file;
using testing::save_plan;
using testing::TempFolder;

constexpr std::uint64_t kNoLimit = UINT64_MAX;

// A new file.
class Fixture {
 protected:
  Fixture() {
    umask(022);
    REQUIRE(save_plan(path_, saved_));
  }

  TempFolder folder_;
  std::string path_ = folder_.file("plans");
  std::vector<Step> steps_ = std::vector<Step>(5, Step{.size = 70'000, .offset = 0});
  Schedule schedule_{steps_.data(), 5, 200 * kGranule, 1000, 0};
  SavedPlan saved_{&schedule_, 5};
};

// What is said of the whole file where it is believed as `trust` says; "" if it is used.
std::string said(const std::string& path, Trust trust, bool whole = true) {
  LoadedPlan plan;
  std::string_view problem;
  const bool taken = load_plan(path, kNoLimit, plan, &problem, trust);
  CHECK(taken == problem.empty());
  struct stat status{};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((!whole || problem == doubt(status, trust)));
  return std::string(problem);
}

TEST_CASE_METHOD(Fixture, "plan file: what others may have written is refused", "[io]") {
  const char* path = path_.c_str();
  for (const mode_t mode : {0600U, 0644U, 0400U, 0755U}) {
    CAPTURE(mode);
    REQUIRE(chmod(path, mode) == 0);
    CHECK(said(path_, Trust::kOwner).empty());
    CHECK(said(path_, Trust::kGroup).empty());
  }
  for (const mode_t mode : {0666U, 0602U}) {
    REQUIRE(chmod(path, mode) == 0);
    CHECK(said(path_, Trust::kOwner).starts_with("anybody may write it; `chmod o-w`"));
    CHECK(said(path_, Trust::kGroup).starts_with("anybody may write it; `chmod o-w`"));
  }
  REQUIRE(chmod(path, 0664) == 0);
  REQUIRE(chown(path, static_cast<uid_t>(-1), getegid()) == 0);
  CHECK(said(path_, Trust::kOwner).ends_with("MEMOMALLOC_PLAN_TRUST=group"));
  CHECK(said(path_, Trust::kGroup).empty());
}

TEST_CASE_METHOD(Fixture, "plan file: another user's is refused, or a group's used", "[io]") {
  if (geteuid() != 0) {
    testing::skip("only root gives files away");
    return;
  }
  const char* path = path_.c_str();
  constexpr uid_t kSomebody = 12'345;
  REQUIRE(chown(path, kSomebody, getegid()) == 0);
  CHECK(said(path_, Trust::kOwner).starts_with("another user owns it; `chown` it"));
  CHECK(said(path_, Trust::kGroup).empty());
  REQUIRE(chown(path, kSomebody, kSomebody) == 0);
  CHECK(said(path_, Trust::kGroup) == "its group is none of yours; `chgrp` it");
  REQUIRE(chown(path, 0, kSomebody) == 0);
  REQUIRE(chmod(path, 0664) == 0);
  CHECK(said(path_, Trust::kGroup) == "its group is none of yours; `chgrp` it");
  // Root's own is anybody's to read.
  REQUIRE(chown(path, 0, 0) == 0);
  REQUIRE(chmod(path, 0644) == 0);
  REQUIRE(chmod(folder_.file("").c_str(), 0755) == 0);
  CHECK(testing::status_of_child([&] {
          return setegid(kSomebody) == 0 && seteuid(kSomebody) == 0 &&
                         said(path_, Trust::kOwner).empty()
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE_METHOD(Fixture, "plan file: a file that is replaced keeps who may read and write it",
                 "[io]") {
  const auto status = [&] {
    struct stat result{};
    REQUIRE(lstat(path_.c_str(), &result) == 0);
    return result;
  };
  CHECK((status().st_mode & 0777) == 0644);  // a new one, as the umask says
  for (const mode_t mode : {0600U, 0640U, 0664U, 0400U, 0644U}) {
    REQUIRE(chmod(path_.c_str(), mode) == 0);
    CHECK(save_plan(path_, saved_));
    CHECK((status().st_mode & 0777) == mode);
  }
  if (geteuid() == 0) {
    constexpr uid_t kSomebody = 12'345;
    REQUIRE(chmod(path_.c_str(), 0660) == 0);
    REQUIRE(chown(path_.c_str(), kSomebody, kSomebody + 1) == 0);
    CHECK(save_plan(path_, saved_));
    CHECK(status().st_uid == kSomebody);
    CHECK(status().st_gid == kSomebody + 1);
    CHECK((status().st_mode & 0777) == 0660);
  }
  // What a link leads to says nothing of the file that takes the link's place.
  const std::string other = folder_.file("other");
  std::ofstream(other) << "x";
  REQUIRE(chmod(other.c_str(), 0600) == 0);
  REQUIRE(unlink(path_.c_str()) == 0);
  REQUIRE(symlink(other.c_str(), path_.c_str()) == 0);
  CHECK(save_plan(path_, saved_));
  CHECK(S_ISREG(status().st_mode));
  CHECK((status().st_mode & 0777) == 0644);
}

TEST_CASE_METHOD(Fixture, "plan file: its size is bounded, in reading and in writing", "[io]") {
  std::vector<Step> many(70'000, Step{.size = 65'536, .offset = 0});
  const Schedule large{many.data(), static_cast<std::uint32_t>(many.size()), 16 * kGranule, 1, 0};
  const SavedPlan plan{&large, large.count};
  REQUIRE(save_plan(path_, plan));
  const std::string full = read_file(path_);
  CHECK(format_plan(plan, full.size()).size() == full.size());
  CHECK(format_plan(plan, full.size() - 1).empty());
  CHECK(said(path_, Trust::kOwner).empty());
  std::ofstream(path_, std::ios::binary | std::ios::app)
      << std::string(tuning::kMaxPlanBytes - full.size(), '\0');
  CHECK(said(path_, Trust::kOwner, false) == "it is damaged");  // it was read
  std::ofstream(path_, std::ios::binary | std::ios::app) << '\0';
  CHECK(said(path_, Trust::kOwner, false) == "it is larger than a plan file can be (4 MiB)");
}

}  // namespace
}  // namespace memo
