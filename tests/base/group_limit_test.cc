// The limit of cgroups, read from folders that look like the kernel's.
#include "src/base/group_limit.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/os.h"
#include "src/serve/headroom.h"
#include "tests/support/process.h"

namespace memo {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// A tree of groups, and the file that names the process' own.
class Groups {
 public:
  explicit Groups(const std::string& named) { write("groups", named); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write(const std::string& name, std::uint64_t number) const {
    write(name, std::to_string(number) + "\n");
  }
  [[nodiscard]] const std::string& groups() const { return groups_; }
  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] GroupLimit found() const {
    GroupLimit limit;
    limit.find(groups().c_str(), root().c_str());
    return limit;
  }

 private:
  testing::TempFolder folder_;
  std::string groups_ = folder_.file("groups");
  std::string root_ = folder_.file("fs");
};

constexpr const char* kSecondVersion = "0::/a/b\n";
constexpr const char* kFirstVersion = "9:name=systemd:/x\n4:cpu,memory:/a/b\n0::/y\n";

TEST_CASE("group limit: version 2, the least up the tree, without the page cache", "[limits]") {
  const Groups tree(kSecondVersion);
  tree.write("fs/a/b/memory.max", "max\n");
  tree.write("fs/a/b/memory.high", 90 * kMiB);
  tree.write("fs/a/b/memory.current", 60 * kMiB);
  tree.write("fs/a/b/memory.stat", "anon 1\ninactive_file 10485760\nactive_file 10485760\n");
  tree.write("fs/a/memory.max", 100 * kMiB);
  tree.write("fs/a/memory.current", 80 * kMiB);
  const GroupLimit limit = tree.found();
  CHECK(limit.look().limit == 90 * kMiB);
  CHECK(limit.look().left == 20 * kMiB);  // the parent's
  tree.write("fs/a/b/memory.max", 50 * kMiB);
  CHECK(limit.look().limit == 50 * kMiB);
  CHECK(limit.look().left == 10 * kMiB);
  tree.write("fs/a/b/memory.current", 90 * kMiB);
  CHECK(limit.look().left == 0);
}

TEST_CASE("group limit: version 1, where it has the memory", "[limits]") {
  const Groups tree(kFirstVersion);
  tree.write("fs/memory/a/b/memory.limit_in_bytes", 128 * kMiB);
  tree.write("fs/memory/a/b/memory.usage_in_bytes", 100 * kMiB);
  tree.write("fs/memory/a/b/memory.stat",
             "inactive_file 999999999\ntotal_inactive_file 1048576\ntotal_active_file 2097152\n");
  tree.write("fs/memory/a/memory.limit_in_bytes", UINT64_C(9223372036854771712));
  tree.write("fs/y/memory.max", kMiB);
  CHECK(tree.found().look().limit == 128 * kMiB);
  CHECK(tree.found().look().left == 31 * kMiB);
}

TEST_CASE("group limit: lazily freed memory that is used again is no page cache", "[limits]") {
  const bool second = GENERATE(true, false);
  const Groups tree(second ? kSecondVersion : kFirstVersion);
  const std::string folder = second ? "fs/a/b/memory." : "fs/memory/a/b/memory.";
  tree.write(folder + (second ? "max" : "limit_in_bytes"), 90 * kMiB);
  tree.write(folder + (second ? "current" : "usage_in_bytes"), 60 * kMiB);
  tree.write(folder + "stat", second ? "anon 1\nfile 12582912\nfile_mapped 99999999\n"
                                       "shmem 2097152\ninactive_file 20971520\n"
                                       "active_file 10485760\n"
                                     : "cache 99999999\ntotal_cache 12582912\n"
                                       "total_shmem 2097152\ntotal_inactive_file 20971520\n"
                                       "total_active_file 10485760\n");
  CHECK(tree.found().look().left == 40 * kMiB);
}

TEST_CASE("group limit: a container's own group is the root that it sees", "[limits]") {
  const std::string named = GENERATE("0::/docker/0123\n", "0::/\n", "0::/../other\n");
  INFO(named);
  const Groups tree(named);
  tree.write("fs/memory.max", 70 * kMiB);
  tree.write("fs/memory.current", 30 * kMiB);
  CHECK(tree.found().look().left == 40 * kMiB);
}

TEST_CASE("group limit: none where there is none, or nothing that can be read", "[limits]") {
  const std::string named =
      GENERATE(as<std::string>(), "", "nonsense\n", "0::\n", "4:memory\n", ":::::\n",
               "0::/" + std::string(4000, 'x') + "\n", std::string(4000, ':'));
  const Groups tree(named);
  CHECK(tree.found().look().limit == GroupLimit::kNone);
  tree.write("fs/a/memory.max", "12x\n");
  CHECK(GroupLimit().look().left == GroupLimit::kNone);
  const Groups more_than_any(kSecondVersion);
  more_than_any.write("fs/a/b/memory.max", os::physical_memory() + 1);
  CHECK(more_than_any.found().look().limit == GroupLimit::kNone);
}

TEST_CASE("headroom: memory that is taken bit by bit is noticed before the limit", "[limits]") {
  const Groups tree(kSecondVersion);
  tree.write("fs/a/b/memory.max", 128 * kMiB);
  std::uint64_t used = 20 * kMiB;
  tree.write("fs/a/b/memory.current", used);
  Headroom headroom;
  headroom.open(tree.groups().c_str(), tree.root().c_str());
  CHECK(headroom.limit() == 128 * kMiB);
  while (!headroom.lacks(kMiB, used)) {
    used += kMiB;
    REQUIRE(used < 128 * kMiB);
    tree.write("fs/a/b/memory.current", used);
  }
  CHECK(used >= 110 * kMiB);
  CHECK(used <= 122 * kMiB);
}

TEST_CASE("headroom: it is looked again once a sixty-fourth of the limit was taken", "[limits]") {
  const Groups tree(kSecondVersion);
  tree.write("fs/a/b/memory.max", 128 * kMiB);
  tree.write("fs/a/b/memory.current", 20 * kMiB);
  Headroom headroom;
  headroom.open(tree.groups().c_str(), tree.root().c_str());
  tree.write("fs/a/b/memory.current", 127 * kMiB);  // others have taken the rest
  CHECK_FALSE(headroom.lacks(kMiB + kMiB / 2, 20 * kMiB));
  CHECK(headroom.lacks(kMiB, 20 * kMiB));
}

TEST_CASE("headroom: what was taken and is not yet written counts", "[limits]") {
  const Groups tree(kSecondVersion);
  tree.write("fs/a/b/memory.max", 128 * kMiB);
  tree.write("fs/a/b/memory.current", 28 * kMiB);
  Headroom headroom;
  headroom.open(tree.groups().c_str(), tree.root().c_str());
  std::uint64_t taken = 0;
  const auto take = [&] {
    taken += 2 * kMiB;
    return headroom.lacks(2 * kMiB, taken);
  };
  while (!take()) {
    REQUIRE(taken < 128 * kMiB);
  }
  CHECK(taken >= 90 * kMiB);
  CHECK(taken <= 100 * kMiB);
  // All but the last 20 MiB are written: as much as that is still to come.
  tree.write("fs/a/b/memory.current", 28 * kMiB + taken - 20 * kMiB);
  CHECK(headroom.lacks(2 * kMiB, taken));
  tree.write("fs/a/b/memory.max", 160 * kMiB);
  CHECK_FALSE(headroom.lacks(2 * kMiB, taken));
  // Freed unwritten, it comes no more.
  taken = 0;
  tree.write("fs/a/b/memory.current", 28 * kMiB);
  while (!take()) {
    REQUIRE(taken < 160 * kMiB);
  }
  CHECK(taken >= 120 * kMiB);
}

TEST_CASE("group limit: tasks that wait for memory are pressure, of the group or of the machine",
          "[limits]") {
  const std::string named = GENERATE("0::/a/b\n", "4:memory:/a/b\n0::/y\n", "");
  INFO(named);
  const bool group = named == "0::/a/b\n";
  const Groups tree(named);
  const auto pressure = [](const std::string& part) {
    return "some avg10=" + part + " avg60=99.00 avg300=99.00 total=999\nfull avg10=99.00\n";
  };
  const std::string machine = tree.root() + "/pressure";
  const auto pressed = [&] { return tree.found().pressed(machine.c_str()); };
  CHECK_FALSE(pressed());
  tree.write(group ? "fs/a/b/memory.pressure" : "fs/pressure", pressure("9.99"));
  tree.write(group ? "fs/pressure" : "fs/a/b/memory.pressure", pressure("80.00"));
  CHECK_FALSE(pressed());
  tree.write(group ? "fs/a/b/memory.pressure" : "fs/pressure", pressure("10.00"));
  CHECK(pressed());
  const std::string nothing =
      GENERATE(as<std::string>(), "", "some\n", "full avg10=99.00\n", "12\n");
  tree.write(group ? "fs/a/b/memory.pressure" : "fs/pressure", nothing);
  CHECK_FALSE(pressed());
}

TEST_CASE("headroom: memory is short while tasks wait for it, whatever is left", "[limits]") {
  const Groups tree(kSecondVersion);
  Headroom headroom;
  headroom.open(tree.groups().c_str(), tree.root().c_str());
  headroom.look_again();
  CHECK_FALSE(headroom.is_short());
  tree.write("fs/a/b/memory.pressure", "some avg10=70.00\n");
  headroom.look_again();
  CHECK(headroom.is_short());
  tree.write("fs/a/b/memory.pressure", "some avg10=0.00\n");
  headroom.look_again();
  CHECK_FALSE(headroom.is_short());
}

TEST_CASE("headroom: less than half of the limit is tight", "[limits]") {
  const Groups tree(kSecondVersion);
  tree.write("fs/a/b/memory.current", 60 * kMiB);
  Headroom headroom;
  headroom.open(tree.groups().c_str(), tree.root().c_str());
  headroom.look_again();
  CHECK_FALSE(headroom.is_tight());
  tree.write("fs/a/b/memory.max", 128 * kMiB);
  headroom.look_again();
  CHECK_FALSE(headroom.is_tight());
  tree.write("fs/a/b/memory.current", 70 * kMiB);
  headroom.look_again();
  CHECK(headroom.is_tight());
  CHECK_FALSE(headroom.is_short());
  tree.write("fs/a/b/memory.stat", "inactive_file 10485760\n");  // lazily freed memory is there
  headroom.look_again();
  CHECK_FALSE(headroom.is_tight());
}

TEST_CASE("headroom: the limit of a group that the process is moved to", "[limits]") {
  const Groups tree(kSecondVersion);
  tree.write("fs/a/b/memory.max", 64 * kMiB);
  tree.write("fs/a/b/memory.current", 20 * kMiB);
  tree.write("fs/c/memory.max", 32 * kMiB);
  tree.write("fs/c/memory.current", 31 * kMiB);
  Headroom headroom;
  headroom.open(tree.groups().c_str(), tree.root().c_str());
  for (int there_and_back = 0; there_and_back < 2; ++there_and_back) {
    tree.write("groups", "0::/c\n");
    headroom.look_again();
    CHECK(headroom.limit() == 32 * kMiB);
    CHECK(headroom.is_short());
    tree.write("groups", "");  // it is not told for once
    headroom.look_again();
    CHECK(headroom.limit() == 32 * kMiB);
    tree.write("groups", kSecondVersion);
    headroom.look_again();
    CHECK(headroom.limit() == 64 * kMiB);
    CHECK_FALSE(headroom.is_short());
  }
}

TEST_CASE("headroom: a limit that is set, raised or lifted later", "[limits]") {
  const Groups tree(kSecondVersion);
  tree.write("fs/a/b/memory.current", 20 * kMiB);
  Headroom headroom;
  headroom.open(tree.groups().c_str(), tree.root().c_str());
  CHECK(headroom.limit() == GroupLimit::kNone);
  CHECK_FALSE(headroom.lacks(UINT64_C(1) << 40, UINT64_MAX));
  tree.write("fs/a/b/memory.max", 21 * kMiB);
  CHECK_FALSE(headroom.is_short());
  headroom.look_again();
  CHECK(headroom.is_short());
  CHECK(headroom.limit() == 21 * kMiB);
  tree.write("fs/a/b/memory.max", 64 * kMiB);
  headroom.look_again();
  CHECK_FALSE(headroom.is_short());
  CHECK(headroom.limit() == 64 * kMiB);
  tree.write("fs/a/b/memory.max", "max\n");
  headroom.look_again();
  CHECK_FALSE(headroom.is_short());
  CHECK(headroom.limit() == GroupLimit::kNone);
}

}  // namespace
}  // namespace memo
