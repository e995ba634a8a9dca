#include "src/base/options.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace memo {
namespace {

using testing::status_of_child;
using testing::stderr_of;

// Reads variables given as "NAME=value"; what was said about them goes to *said.
Options read(std::vector<std::string> variables, std::string* said = nullptr) {
  std::vector<char*> environment;
  for (std::string& variable : variables) {
    environment.push_back(variable.data());
  }
  environment.push_back(nullptr);
  Options options;
  const std::string text = stderr_of([&] { read_options(environment.data(), options); });
  if (said != nullptr) {
    *said = text;
  }
  return options;
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_CASE("options: defaults without an environment, and in silence", "[base]") {
  Options options;
  CHECK(stderr_of([&] { read_options(nullptr, options); }).empty());
  CHECK(options.THRESHOLD == 65536);
  CHECK(options.SLAB_LIMIT == 0);
  CHECK(options.PLANNER.view() == "portfolio");
  CHECK(options.PLAN_TIME == 20);
  CHECK(options.PLANS.empty());
  CHECK(options.HUGEPAGES == Choice::kAuto);
  CHECK(options.STRICT == 0);
}

TEST_CASE("options: every type is read", "[base]") {
  std::string said;
  const Options options =
      read({"MEMOMALLOC_THRESHOLD=4K", "MEMOMALLOC_PLAN_TIME=750", "MEMOMALLOC_STATS=1",
            "MEMOMALLOC_PLANNER=greedy-by-size", "MEMOMALLOC_STATS_FILE=/tmp/%p=%h.json",
            "MEMOMALLOC_HUGEPAGES=never", "MEMOMALLOC_EXE=python3:infer", "PATH=/bin",
            "MEMOMALLOC=1", "MEMOMALLOC_DISABLE", "MEMOMALLO_STATS=2", "MEMOMALLOC_PLANS="},
           &said);
  CHECK(said.empty());
  CHECK(options.THRESHOLD == 4096);
  CHECK(options.PLAN_TIME == 750);
  CHECK(options.STATS == 1);
  CHECK(options.PLANNER.view() == "greedy-by-size");
  CHECK(options.STATS_FILE.view() == "/tmp/%p=%h.json");
  CHECK(options.HUGEPAGES == Choice::kNever);
  CHECK(options.EXE.view() == "python3:infer");
  CHECK(options.DISABLE == 0);
  CHECK(read({"MEMOMALLOC_HUGEPAGES=always"}).HUGEPAGES == Choice::kAlways);
  CHECK(read({"MEMOMALLOC_HUGEPAGES=always", "MEMOMALLOC_HUGEPAGES=auto"}).HUGEPAGES ==
        Choice::kAuto);
}

TEST_CASE("options: a variable that is gone is told with the one that has its place", "[base]") {
  std::string said;
  read({"MEMOMALLOC_PLAN_FILE=plans"}, &said);
  CHECK(said.find("unknown variable MEMOMALLOC_PLAN_FILE") != std::string::npos);
  CHECK(said.find("did you mean MEMOMALLOC_PLANS?") != std::string::npos);
  read({"MEMOMALLOC_SHARE=weights"}, &said);
  CHECK(said.find("unknown variable MEMOMALLOC_SHARE") != std::string::npos);
  CHECK(read({"MEMOMALLOC_NUMA=auto"}, &said).NUMA == Numa::kOff);
  CHECK(said.find("bad value of MEMOMALLOC_NUMA") != std::string::npos);
}

TEST_CASE("options: sizes take K, M and G", "[base]") {
  const auto [text, bytes] = GENERATE(table<std::string, std::uint64_t>({
      {"0", 0},
      {"1", 1},
      {"65537", 65537},
      {"64K", 65536},
      {"64k", 65536},
      {"3M", 3ULL << 20},
      {"3m", 3ULL << 20},
      {"2G", 2ULL << 30},
      {"2g", 2ULL << 30},
      {"17179869183G", 17179869183ULL << 30},
      {"18446744073709551600", 18446744073709551600ULL},
      {"0000000000000000000000001K", 1024},
  }));
  std::string said;
  INFO(text);
  CHECK(read({"MEMOMALLOC_SLAB_LIMIT=" + text}, &said).SLAB_LIMIT == bytes);
  CHECK(said.empty());
}

TEST_CASE("options: a bad value gives one line and the default", "[base]") {
  const auto variable =
      GENERATE(as<std::string>{}, "THRESHOLD=", "THRESHOLD=K", "THRESHOLD=4KK", "THRESHOLD=-1",
               "THRESHOLD= 1", "THRESHOLD=1 ", "THRESHOLD=0x10", "THRESHOLD=1.5M", "THRESHOLD=1T",
               "THRESHOLD=17179869184G", "THRESHOLD=18446744073709551616",
               "THRESHOLD=99999999999999999999", "PLAN_TIME=1K", "PLAN_TIME=fast", "STATS=2",
               "STATS=yes", "HUGEPAGES=Auto", "HUGEPAGES=", "STRICT=2");
  std::string said;
  INFO(variable);
  const Options options = read({"MEMOMALLOC_" + variable, "MEMOMALLOC_VERBOSE=1"}, &said);
  INFO(said);
  CHECK(lines(said) == 1);
  const std::size_t equals = variable.find('=');
  CHECK(said.find(std::string("MEMOMALLOC_").append(variable, 0, equals)) != std::string::npos);
  CHECK(said.find(std::string("'").append(variable, equals + 1).append("'")) != std::string::npos);
  CHECK(said.find("the default is used") != std::string::npos);
  CHECK(options.THRESHOLD == 65536);
  CHECK(options.PLAN_TIME == 20);
  CHECK(options.STATS == 0);
  CHECK(options.HUGEPAGES == Choice::kAuto);
  CHECK(options.VERBOSE == 1);  // the good one after it counts
}

TEST_CASE("options: an unknown variable gives one line", "[base]") {
  for (const char* name : {"MEMOMALLOC_TRESHOLD", "MEMOMALLOC_", "MEMOMALLOC_threshold"}) {
    std::string said;
    read({std::string(name) + "=4K"}, &said);
    INFO(said);
    CHECK(lines(said) == 1);
    CHECK(said.find(std::string("unknown variable ") + name + ",") != std::string::npos);
    const bool near = said.find("; did you mean MEMOMALLOC_THRESHOLD? (") != std::string::npos;
    CHECK(near == (std::string_view(name) != "MEMOMALLOC_"));
  }
}

TEST_CASE("options: a text that does not fit is bad, and none of it is kept", "[base]") {
  std::string said;
  const std::string longest(sizeof(option::Text::value) - 1, 'x');
  CHECK(read({"MEMOMALLOC_TRACE_FILE=" + longest}, &said).TRACE_FILE.view() == longest);
  CHECK(said.empty());
  CHECK(read({"MEMOMALLOC_TRACE_FILE=" + longest + "y"}, &said).TRACE_FILE.empty());
  CHECK(lines(said) == 1);
}

TEST_CASE("options: strict stops the program, wherever it stands", "[base]") {
  const auto status = [](std::vector<std::string> variables) {
    return status_of_child([&] {
      read(std::move(variables));
      return 0;
    });
  };
  const auto ends_with = [](int code) { return code << 8; };
  CHECK(status({"MEMOMALLOC_STRICT=1", "MEMOMALLOC_NOVEL=1"}) == ends_with(2));
  CHECK(status({"MEMOMALLOC_NOVEL=1", "MEMOMALLOC_STRICT=1"}) == ends_with(2));
  CHECK(status({"MEMOMALLOC_STATS=7", "MEMOMALLOC_STRICT=1"}) == ends_with(2));
  CHECK(status({"MEMOMALLOC_STATS=1", "MEMOMALLOC_STRICT=1"}) == 0);
  CHECK(status({"MEMOMALLOC_STATS=7", "MEMOMALLOC_STRICT=0"}) == 0);
}

TEST_CASE("options: paths take the process and the host", "[base]") {
  char path[64];
  char host[256] = {};
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  const std::string pid = std::to_string(getpid());
  const auto expanded = [&](std::string_view text) {
    char result[1024];
    return expand_path(text, result, sizeof result) ? std::string(result) : "does not fit";
  };
  CHECK(expanded("") == "");
  CHECK(expanded("/tmp/stats.json") == "/tmp/stats.json");
  CHECK(expanded("%p") == pid);
  CHECK(expanded("a.%p.%h.b%p") == "a." + pid + "." + host + ".b" + pid);
  CHECK(expanded("100%") == "100%");
  CHECK(expanded("%x%%p") == "%x%" + pid);
  CHECK(expand_path("1234567", path, 8));
  CHECK_FALSE(expand_path("12345678", path, 8));
  CHECK_FALSE(expand_path("%p", path, pid.size()));
  CHECK(expand_path("%p", path, pid.size() + 1));
}

TEST_CASE("options: a list of executables", "[base]") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").filename();
  CHECK(runs_in(""));
  CHECK(runs_in(self));
  CHECK(runs_in("python3:" + self));
  CHECK(runs_in(self + ":python3"));
  CHECK(runs_in(":" + self + ":"));
  CHECK_FALSE(runs_in(":"));
  CHECK_FALSE(runs_in("python3:infer"));
  CHECK_FALSE(runs_in(self + "x"));
  CHECK_FALSE(runs_in(self.substr(1)));
  CHECK_FALSE(runs_in("/" + self));
}

}  // namespace
}  // namespace memo
