// The reader of pickles and what it makes of snapshots: tests/cli/test_snapshot.py has Python write
// them; here they are written byte by byte.
#include "src/cli/trace/snapshot.h"

#include <catch2/catch.hpp>

#include "src/cli/trace/pickle.h"
#include "src/cli/trace/unpickle.h"

namespace memo::cli {
namespace {

using Kind = Pickled::Kind;

std::string bytes_of(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) {
    text += static_cast<char>(byte);
  }
  return text;
}

// The single value of a pickle of protocol 2 whose body this is.
std::uint64_t number_in(const std::string& body, Kind kind) {
  const std::string bytes = "\x80\x02" + body + ".";
  std::string error;
  const auto data = Pickled::read(bytes, error);
  REQUIRE(data);
  CHECK(data->kind(data->root()) == kind);
  return data->number(data->root());
}

std::string error_of(const std::string& bytes) {
  std::string error;
  CHECK_FALSE(Pickled::read(bytes, error));
  return error;
}

void add_entry(Pickle& pickle, std::string_view action, std::uint64_t address, std::uint64_t size) {
  pickle.begin_dictionary();
  pickle.entry("action", action);
  pickle.entry("addr", address);
  pickle.entry("size", size);
  pickle.end_dictionary();
}

}  // namespace

TEST_CASE("unpickle: numbers of each width", "[cli]") {
  CHECK(number_in(bytes_of({'K', 255}), Kind::kNumber) == 255);
  CHECK(number_in(bytes_of({'M', 0xff, 0xff}), Kind::kNumber) == 65535);
  CHECK(number_in(bytes_of({'J', 0xff, 0xff, 0xff, 0x7f}), Kind::kNumber) == 0x7fffffff);
  number_in(bytes_of({'J', 0xff, 0xff, 0xff, 0xff}), Kind::kNegative);
  CHECK(number_in(bytes_of({0x8a, 0}), Kind::kNumber) == 0);
  number_in(bytes_of({0x8a, 1, 0x80}), Kind::kNegative);
  CHECK(number_in(bytes_of({0x8a, 2, 0x80, 0}), Kind::kNumber) == 128);
  CHECK(number_in(bytes_of({0x8a, 9, 255, 255, 255, 255, 255, 255, 255, 255, 0}), Kind::kNumber) ==
        ~std::uint64_t{0});
  CHECK(error_of("\x80\x02" + bytes_of({0x8a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1}) + ".") ==
        "byte 2: a number of more than 64 bits");
}

TEST_CASE("unpickle: containers, names and what is remembered", "[cli]") {
  // {"a": [1, t], "b": t} with t = (None, True), then "a" once more, which wins
  const std::string bytes = "\x80\x04}(X" + bytes_of({1, 0, 0, 0}) + "a](K\x01N\x88\x86\x94" +
                            "eX" + bytes_of({1, 0, 0, 0}) + "b" + bytes_of({'h', 0}) + "X" +
                            bytes_of({1, 0, 0, 0}) + "aK\x05u.";
  std::string error;
  const auto data = Pickled::read(bytes, error);
  REQUIRE(data);
  REQUIRE(data->items(data->root()).size() == 6);
  const auto list = data->items(data->root())[1];
  const auto tuple = data->find(data->root(), "b");
  REQUIRE(tuple);
  CHECK(data->items(list).back() == *tuple);
  CHECK(data->kind(data->items(*tuple)[1]) == Kind::kTrue);
  CHECK(data->number(*data->find(data->root(), "a")) == 5);
  CHECK_FALSE(data->find(data->root(), "c"));
  CHECK_FALSE(data->find(list, "a"));
}

TEST_CASE("unpickle: an error names the byte of the opcode", "[cli]") {
  CHECK(error_of("").starts_with("byte 0: "));
  CHECK(error_of("id,lower,upper,size\n").starts_with("byte 0: "));
  CHECK(error_of("\x80\x06N.").starts_with("byte 0: protocol 6"));
  CHECK(error_of("\x80\x02](cos\nsystem\n.").starts_with("byte 4: opcode 0x63 is refused"));
  CHECK(error_of("\x80\x02]K\x01").starts_with("byte 5: the file is cut short"));
  CHECK(error_of("\x80\x02K\x01K\x02.").starts_with("byte 6: the end comes with 2 values"));
  CHECK(error_of("\x80\x02(a.").starts_with("byte 3: a mark is in the way"));
  CHECK(error_of("\x80\x02" + std::string("e.")).starts_with("byte 2: there is no mark"));
  CHECK(error_of("\x80\x02}K\x01K\x01K\x01" + std::string("s."))
            .starts_with("byte 9: there is no dictionary"));
  CHECK(error_of("\x80\x02}(K\x01u.").starts_with("byte 6: a dictionary's key has no value"));
  CHECK(error_of("\x80\x02h" + bytes_of({7}) + ".").starts_with("byte 2: value 7 was never"));
}

TEST_CASE("snapshot: lifetimes, what was alive before, and what was reserved", "[cli]") {
  Pickle pickle;
  pickle.begin_dictionary();
  pickle.text("device_traces");
  pickle.begin_list();
  pickle.begin_list();
  add_entry(pickle, "alloc", 100, 10);
  add_entry(pickle, "segment_alloc", 5000, 4096);
  add_entry(pickle, "free_completed", 7, 20);  // from before
  add_entry(pickle, "free_requested", 100, 10);
  add_entry(pickle, "oom", 0, 1 << 20);
  add_entry(pickle, "free_completed", 100, 10);
  add_entry(pickle, "alloc", 100, 30);
  add_entry(pickle, "segment_free", 5000, 4096);
  pickle.end_list();
  pickle.end_list();
  pickle.text("segments");
  pickle.begin_list();
  pickle.begin_dictionary();
  pickle.entry("address", 100);
  pickle.entry("total_size", 2048);
  pickle.text("blocks");
  pickle.begin_list();
  for (const auto& [state, size] :
       {std::pair{"active_allocated", 512}, {"inactive", 512}, {"active_awaiting_free", 1024}}) {
    pickle.begin_dictionary();
    pickle.entry("state", state);
    pickle.entry("size", static_cast<std::uint64_t>(size));
    pickle.end_dictionary();
  }
  pickle.end_list();
  pickle.end_dictionary();
  pickle.end_list();
  pickle.end_dictionary();
  const std::string bytes = pickle.finish();
  std::string error;
  const auto snapshot = read_snapshot(bytes, "f", error);
  REQUIRE(error.empty());
  REQUIRE(snapshot);
  REQUIRE(snapshot->devices.size() == 1);
  const SnapshotDevice& device = snapshot->devices[0];
  CHECK(device.before == 2);  // of 20 bytes until the first event, of 1024 always
  CHECK(device.alive == 1054);
  CHECK(device.reserved == 2048 + 4096);
  CHECK(device.reserved_now == 2048);
  const dsa::CsvTable table = snapshot_problem(device);
  const auto is = [&](std::size_t i, dsa::Time lower, dsa::Time upper, dsa::Bytes size) {
    const dsa::Buffer& buffer = table.problem.buffers[i];
    CHECK(buffer.lower == lower);
    CHECK(buffer.upper == upper);
    CHECK(buffer.size == size);
  };
  REQUIRE(table.problem.buffers.size() == 4);
  is(0, 0, 2, 20);
  is(1, 0, 5, 1024);
  is(2, 1, 3, 10);
  is(3, 4, 5, 30);
}

TEST_CASE("snapshot: devices are merged by their times", "[cli]") {
  Snapshot snapshot;
  for (std::uint32_t number : {0U, 3U}) {
    SnapshotDevice device;
    device.number = number;
    device.blocks = {{.size = 1, .upper = 9}, {.size = 2, .lower = 1, .upper = 2, .freed = true}};
    device.before = 1;
    const std::int64_t start = number == 0 ? 10 : 5;
    device.events = {{1, false, start}, {1, true, start + 8}};
    snapshot.devices.push_back(device);
  }
  std::string seen;
  CHECK(snapshot_rows(snapshot, [&](const TraceRow& row) {
          seen += row.kind == TraceRow::Kind::kFree ? '-' : '+';
          seen += std::to_string(row.thread) + ":" + std::to_string(row.block) + " ";
          return std::string();
        }).empty());
  CHECK(seen == "+0:0 +3:2 +3:3 +0:1 -3:3 -0:1 ");
  CHECK(snapshot_rows(snapshot, [](const TraceRow&) { return std::string("no"); }) == "no");
}

}  // namespace memo::cli
