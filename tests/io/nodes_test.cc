// Memory nodes, read from files that look like the kernel's.
#include "src/base/nodes.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "src/io/node_maps.h"
#include "src/io/team.h"
#include "tests/support/process.h"

namespace memo {
namespace {

class Machine {
 public:
  Machine(const std::string& online, const std::string& memory) {
    write("online", online);
    write("has_cpu", online);
    write("has_memory", memory);
    write("status", "Name:\tx\nMems_allowed:\tffffffff\nMems_allowed_list:\t0-63\n");
  }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  [[nodiscard]] bool several() const { return os::several_nodes(folder().c_str()); }
  [[nodiscard]] std::unique_ptr<Topology> read() const {
    auto topology = std::make_unique<Topology>();
    topology->read(folder().c_str(), file("status").c_str());
    return topology;
  }

 private:
  [[nodiscard]] std::string folder() const {
    const std::string online = folder_.file("online");
    return online.substr(0, online.rfind('/'));
  }
  testing::TempFolder folder_;
};

TEST_CASE("nodes: one node is one, several are several", "[io]") {
  CHECK_FALSE(Machine("0", "0").several());
  CHECK(Machine("0-1", "0-1").several());
  CHECK(Machine("0,2", "0,2").several());
  CHECK(Machine("0-63", "0-63").several());
  CHECK_FALSE(Machine("", "").several());
  CHECK_FALSE(os::several_nodes("/nowhere"));
}

TEST_CASE("nodes: processors are their nodes', and nodes without memory are none", "[io]") {
  const Machine machine("0-2,12", "0-1,12");
  machine.write("node0/cpulist", "0-1,4-5");
  machine.write("node1/cpulist", "2,3,6,7");
  machine.write("node2/cpulist", "8-9");
  machine.write("node12/cpulist", "10,4095-5000");
  const auto topology = machine.read();
  CHECK(topology->usable() == (only(0) | only(1) | only(12)));
  const int expected[] = {0, 0, 1, 1, 0, 0, 1, 1, kMaxNodes, kMaxNodes, 12, kMaxNodes};
  for (int i = 0; i < 12; ++i) {
    CHECK(topology->node_of(i) == static_cast<std::uint32_t>(expected[i]));
  }
  CHECK(topology->node_of(4095) == 12);
  CHECK(topology->node_of(4096) == Topology::kNoNode);
  CHECK(topology->node_of(-1) == Topology::kNoNode);
}

TEST_CASE("nodes: those that the process may not use are none", "[io]") {
  const Machine machine("0-3", "0-3");
  machine.write("status", "Name:\tx\nMems_allowed_list:\t1,3");
  CHECK(machine.read()->usable() == (only(1) | only(3)));
  machine.write("status", "Name:\tx");
  CHECK(machine.read()->usable() == 0xf);
}

TEST_CASE("nodes: files that say nothing make no node", "[io]") {
  const Machine machine("0-1", "x");
  CHECK(machine.read()->usable() == 0);
  const Machine wild("0-99999999999", "5-2,1");
  CHECK(wild.read()->usable() == only(1));
  CHECK(wild.read()->node_of(0) == Topology::kNoNode);
}

TEST_CASE("nodes: the thread's processor is known without a system call", "[io]") {
#ifdef __x86_64__
  CHECK(os::processor() >= 0);
#endif
  os::find_processor_note();
  CHECK(os::processor() < static_cast<int>(Topology::kMaxProcessors));
}

TEST_CASE("node maps: mappings are counted where they begin", "[io]") {
  const Machine machine("0-1", "0-1");
  machine.write("maps",
                "55d000000000 default file=/usr/bin/N0=7 mapped=3 N0=3 kernelpagesize_kB=4\n"
                "7f0000000000 default anon=9 dirty=9 active=0 N0=4 N1=5 kernelpagesize_kB=4\n"
                "7f0000100000 default\n"
                "7f0000200000 default anon=2 N1=2 kernelpagesize_kB=2048\n"
                "7f0000400000 interleave:0-1 anon=6 dirty=6 N0=3 N1=3 kernelpagesize_kB=4");
  NodeRange ranges[] = {{0x7f0000000000, 0x400000, {}, false}, {0x7f0000400000, 0x1000, {}, false}};
  REQUIRE(read_node_maps(ranges, machine.file("maps").c_str()));
  CHECK(ranges[0].found.on[0] == 4 * 4096);
  CHECK(ranges[0].found.on[1] == 5 * 4096 + (4ULL << 20));
  CHECK_FALSE(ranges[0].by_policy);
  CHECK(ranges[1].found.on[1] == 3 * 4096);
  CHECK(ranges[1].by_policy);
  CHECK_FALSE(read_node_maps(ranges, "/nowhere"));
}

// A thread as /proc tells of it.
void thread(const Machine& machine, int number, int ticks, int processor, int nice = 0) {
  std::string text = std::to_string(number) + " (a ) name) R";
  for (int field = 4; field <= 52; ++field) {
    const int value = field == 14   ? ticks
                      : field == 15 ? 3
                      : field == 19 ? nice
                      : field == 39 ? processor
                                    : 0;
    text += " " + std::to_string(value);
  }
  machine.write("task/" + std::to_string(number) + "/stat", text);
}

TEST_CASE("team: a thread with a slab like this one's writes in its own", "[io]") {
  const Machine machine("0-2", "0-2");
  machine.write("node0/cpulist", "0");
  machine.write("node1/cpulist", "1");
  machine.write("node2/cpulist", "2");
  const auto topology = machine.read();
  const std::string tasks = machine.file("task");
  const auto team = std::make_unique<Team>();
  const auto all = [](std::uint32_t) { return true; };
  for (int number = 100; number < 104; ++number) {
    thread(machine, number, 50, 0);
  }
  team->look(*topology, tasks.c_str());
  CHECK(team->nodes(all) == 0);  // nothing is known of what they did before
  thread(machine, 100, 60, 0);
  thread(machine, 101, 60, 1);
  thread(machine, 102, 51, 2);      // only woke up
  thread(machine, 103, 90, 2, 19);  // gives way to all others
  team->look(*topology, tasks.c_str());
  CHECK(team->nodes(all) == (only(0) | only(1)));
  CHECK(team->nodes([](std::uint32_t number) { return number != 101; }) == only(0));
  thread(machine, 101, 70, 7);  // a processor of no node
  team->look(*topology, tasks.c_str());
  CHECK(team->nodes(all) == 0);
  team->look(*topology, "/nowhere");
  CHECK(team->nodes(all) == 0);
}

}  // namespace
}  // namespace memo
