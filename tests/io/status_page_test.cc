// What a reader believes of a page of statistics, and where pages lie.
#include "src/io/status_page.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "src/base/file_map.h"

namespace memo {
namespace {

StatusPage whole_page() {
  StatusPage page;
  page.body.pid = 7;
  page.body.parent_pid = 1;
  page.body.start = 99;
  page.body.space = 4;
  page.body.opened_at = 10;
  page.body.written_at = 20;
  page.body.lane_rows = 2;
  page.body.plan_rows = 1;
  page.body.plan_seconds = 0.5;
  std::strcpy(page.body.process, "python3");
  std::strcpy(page.body.phase, "serving");
  std::strcpy(page.body.lanes[1].phase, "learning");
  seal_page(page);
  return page;
}

// A page whose sum is right and whose body is as `change` makes it.
template <typename Change>
bool believed(Change&& change) {
  StatusPage page = whole_page();
  change(page.body);
  seal_page(page);
  return check_page(page).empty();
}

std::string make_folder() {
  char path[] = "/tmp/memomalloc-test-XXXXXX";
  REQUIRE(mkdtemp(path) != nullptr);
  return path;
}

TEST_CASE("status page: one that is whole is believed", "[io]") {
  const StatusPage page = whole_page();
  CHECK(check_page(page).empty());
  const StatusPage empty;
  CHECK(check_page(empty) == "it is no page of statistics");
}

TEST_CASE("status page: a single bit that is another is noticed", "[io]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 chance(seed);
  for (int i = 0; i < 2000; ++i) {
    StatusPage page = whole_page();
    char* bytes = reinterpret_cast<char*>(&page);
    bytes[chance() % sizeof page] ^= static_cast<char>(1U << chance() % 8);
    CHECK_FALSE(check_page(page).empty());
  }
}

TEST_CASE("status page: another layout is not read", "[io]") {
  StatusPage page = whole_page();
  page.layout ^= 1;
  CHECK(check_page(page) == "another version of memomalloc has written it");
}

TEST_CASE("status page: numbers that cannot be are not believed", "[io]") {
  CHECK(believed([](StatusBody& body) { body.peak_bytes = 1ULL << 40U; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.lane_rows = kLaneRows + 1; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.lane_rows = UINT64_MAX; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.plan_rows = kPlanRows + 1; }));
  CHECK_FALSE(believed(
      [](StatusBody& body) { body.plan_seconds = std::numeric_limits<double>::quiet_NaN(); }));
  CHECK_FALSE(believed(
      [](StatusBody& body) { body.plan_seconds = std::numeric_limits<double>::infinity(); }));
  CHECK_FALSE(believed([](StatusBody& body) { body.plan_seconds = -1; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.pid = 0; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.pid = UINT64_MAX; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.opened_at = body.written_at + 1; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.written_at = UINT64_MAX; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.counters[3] = UINT64_MAX; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.now.other_bytes = UINT64_MAX; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.lanes[1].slab_bytes = UINT64_MAX; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.plans[0].height_bytes = UINT64_MAX; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.pool_used_bytes = UINT64_MAX; }));
  CHECK(believed([](StatusBody& body) { body.lanes[1].plan = 1; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.lanes[1].plan = 2; }));  // of one plan
  CHECK(believed([](StatusBody& body) { body.device_rows = kDeviceRows; }));
  CHECK_FALSE(believed([](StatusBody& body) { body.device_rows = kDeviceRows + 1; }));
  for (const std::uint64_t bytes : {std::uint64_t{1} << 40U, UINT64_MAX}) {
    CHECK((bytes != UINT64_MAX) == believed([&](StatusBody& body) {
            body.device_rows = 2;
            body.devices[1].reserved_bytes = bytes;
          }));
  }
}

TEST_CASE("status page: texts without an end, or with a terminal's commands, are not believed",
          "[io]") {
  CHECK_FALSE(
      believed([](StatusBody& body) { std::memset(body.process, 'x', sizeof body.process); }));
  CHECK_FALSE(believed([](StatusBody& body) { std::strcpy(body.process, "a\033[2J"); }));
  CHECK_FALSE(believed([](StatusBody& body) { std::strcpy(body.phase, "a\nb"); }));
  CHECK_FALSE(believed([](StatusBody& body) { body.lanes[1].phase[0] = '\x7f'; }));
  CHECK(believed([](StatusBody& body) { body.lanes[5].phase[0] = '\x7f'; }));  // not shown
}

TEST_CASE("status page: names say whose they are, and no other name is one", "[io]") {
  char text[kStatusNameRoom];
  format_name({.pid = 12, .start = UINT64_MAX, .space = 4026531836}, text);
  StatusName name;
  REQUIRE(parse_name(text, name));
  CHECK(name.pid == 12);
  CHECK(name.start == UINT64_MAX);
  CHECK(name.space == 4026531836);
  CHECK_FALSE(name.devices);
  format_name({.pid = 12, .start = 3, .space = 4, .devices = true}, text);
  CHECK(std::string_view(text) == "12-3-4.gpu");
  REQUIRE(parse_name(text, name));
  CHECK(name.devices);
  for (const char* other :
       {"", "12", "12-3.page", "12-3-4", "12-3-4.page.tmp", "x-3-4.page", "-3-4.page", "0-3-4.page",
        "+1-3-4.page", " 1-3-4.page", "99999999999999999999-3-4.page", "4294967296-3-4.page",
        "12-3-4.pag", "12-3-4.gpu.page", "12-3-4.page.gpu", "../1-3-4.page"}) {
    CAPTURE(other);
    CHECK_FALSE(parse_name(other, name));
  }
}

TEST_CASE("status page: a folder is the user's own, or not used", "[io]") {
  const std::string above = make_folder();
  char path[256];
  REQUIRE(status_folder(above, geteuid(), path, sizeof path));
  CHECK(open_status_folder(path, geteuid(), false) == -1);
  CHECK(errno == ENOENT);
  const int made = open_status_folder(path, geteuid(), true);
  REQUIRE(made >= 0);
  struct stat status{};
  REQUIRE(fstat(made, &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  close(made);
  CHECK(open_status_folder(path, geteuid() + 1, false) == -1);
  CHECK(errno == EACCES);
  REQUIRE(chmod(path, 0710) == 0);
  CHECK(open_status_folder(path, geteuid(), true) == -1);
  CHECK(errno == EACCES);
  REQUIRE(rmdir(path) == 0);
  REQUIRE(symlink("/tmp", path) == 0);
  CHECK(open_status_folder(path, geteuid(), true) == -1);
  REQUIRE(unlink(path) == 0);
  CHECK(status_folder("relative", 5, path, sizeof path));
  CHECK(std::string(path) == "/tmp/memomalloc-5");
  CHECK_FALSE(status_folder(std::string(300, 'x').replace(0, 1, "/"), 5, path, sizeof path));
  rmdir(above.c_str());
}

TEST_CASE("status page: a file that was cut short refuses a copy, and ends nobody", "[io]") {
  const std::string above = make_folder();
  const int folder = open(above.c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(folder >= 0);
  StatusFile content;
  content.page = whole_page();
  StatusFile* mapped = make_page(folder, "1-2-3.page", content);
  REQUIRE(mapped != nullptr);
  StatusPage copy;
  CHECK(os::copy_mapped(&copy, &mapped->page, sizeof copy));
  CHECK(check_page(copy).empty());
  copy.body.peak_bytes = 5;
  seal_page(copy);
  CHECK(os::copy_mapped(&mapped->page, &copy, sizeof copy));

  const int file = open_page(folder, "1-2-3.page", geteuid(), true);
  REQUIRE(file >= 0);
  StatusPage read;
  REQUIRE(pread(file, &read, sizeof read, 0) == static_cast<ssize_t>(sizeof read));
  CHECK(read.body.peak_bytes == 5);
  REQUIRE(ftruncate(file, 0) == 0);
  CHECK_FALSE(os::copy_mapped(&copy, &mapped->page, sizeof copy));
  CHECK_FALSE(os::copy_mapped(&mapped->page, &copy, sizeof copy));
  CHECK(open_page(folder, "1-2-3.page", geteuid(), false) == -1);  // not of its size
  close(file);

  StatusFile* again = make_page(folder, "1-2-3.page", content);  // in place of the old one
  REQUIRE(again != nullptr);
  const int reader = open_page(folder, "1-2-3.page", geteuid(), false);
  CHECK(reader >= 0);
  close(reader);
  CHECK(open_page(folder, "1-2-3.page", geteuid() + 1, false) == -1);
  REQUIRE(fchmodat(folder, "1-2-3.page", 0644, 0) == 0);
  CHECK(open_page(folder, "1-2-3.page", geteuid(), false) == -1);
  unlinkat(folder, "1-2-3.page", 0);
  close(folder);
  rmdir(above.c_str());
}

TEST_CASE("status page: a process is told from a later one of its number", "[io]") {
  CHECK(start_of(getpid()) != 0);
  CHECK(start_of(getpid()) == start_of(getpid()));
  CHECK(start_of(getpid()) > start_of(1));
  CHECK(start_of(1 << 30) == 0);
  CHECK(number_space() != 0);
}

}  // namespace
}  // namespace memo
