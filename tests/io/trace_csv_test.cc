#include "src/io/trace_csv.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "src/cli/trace/trace_reader.h"

namespace memo {
namespace {

// A file of its own, removed at the end.
class TempFile {
 public:
  explicit TempFile(const std::string& text = "") {
    path_ = (std::filesystem::temp_directory_path() / "memomalloc-trace-XXXXXX").string();
    const int file = mkstemp(path_.data());
    REQUIRE(file >= 0);
    REQUIRE(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(file);
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string kHeaderLine = std::string(kTraceHeader) + "\n";

std::string error_of(const std::string& text) {
  const TempFile file(text);
  cli::Streams streams;
  const std::string error = cli::read_streams(file.path(), 0, streams);
  return error.starts_with(file.path()) ? error.substr(file.path().size()) : error;
}

TEST_CASE("trace csv: what is written is read again", "[io]") {
  const auto seed = GENERATE(range(1U, 6U));
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<TraceRow> rows;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    TraceRow row;
    row.block = i;
    if (i % 100 == 99) {
      row.kind = TraceRow::Kind::kMark;
    } else {
      row.op = static_cast<Op>(random() % 8);
      row.thread = static_cast<std::uint32_t>(random());
      row.size = random() >> (random() % 64);
      row.alignment = std::uint64_t{1} << (random() % 64);
      row.site = random();
    }
    rows.push_back(row);
    if (i % 3 == 0 && row.kind == TraceRow::Kind::kAllocate) {
      rows.push_back({.kind = TraceRow::Kind::kFree, .thread = 1, .block = i});
    }
  }
  const TempFile file;
  const int descriptor = ::open(file.path().c_str(), O_WRONLY);
  TraceWriter writer(descriptor);
  for (const TraceRow& row : rows) {
    writer.write(row);
  }
  CHECK(writer.flush());
  ::close(descriptor);

  std::vector<TraceRow> again;
  CHECK(cli::read_trace(file.path(), [&](const TraceRow& row) {
          again.push_back(row);
          return std::string();
        }) == "");
  CHECK(again == rows);
}

TEST_CASE("trace csv: a file that cannot be written is said", "[io]") {
  TraceWriter writer(-1);
  writer.write({});
  CHECK_FALSE(writer.flush());
}

TEST_CASE("trace csv: plain and compressed files give the same streams", "[io]") {
  const std::string text = kHeaderLine +
                           "malloc,0,0,70000,1,ab\n"
                           "malloc,0,1,10,1,ab\n"
                           "mark,,0,,,\n"
                           "posix_memalign,1,2,80000,64,\n"
                           "calloc,0,3,90000,16,\r\n"
                           "free,1,0,,,\n"
                           "free,0,1,,,\n"
                           "mark,,1,,,\n";
  const TempFile plain(text);
  const TempFile packed;
  gzFile file = gzopen(packed.path().c_str(), "wb");
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) > 0);
  gzclose(file);
  for (const std::string& path : {plain.path(), packed.path()}) {
    cli::Streams streams;
    REQUIRE(cli::read_streams(path, 65536, streams) == "");
    REQUIRE(streams.size() == 2);
    const cli::Stream& first = streams.at(0);
    REQUIRE(first.allocations.size() == 2);
    CHECK(first.allocations[0].size == 70000);
    CHECK(first.allocations[0].site == 0xab);
    CHECK(first.allocations[0].death == 2);  // freed by thread 1 after two allocations of its owner
    CHECK(first.allocations[1].death == kAlive);
    CHECK(first.allocations[1].alignment_log2 == 4);
    CHECK(first.marks == std::vector<std::uint32_t>{1, 2});
    CHECK(streams.at(1).marks == std::vector<std::uint32_t>{0, 1});
    REQUIRE(first.events.size() == 3);
    CHECK(first.events[2].is_free);
  }
}

TEST_CASE("trace csv: errors name the line and the reason", "[io]") {
  const auto [row, reason] = GENERATE(table<std::string, std::string>({
      {"malloc,0,0,70000,1", "a row has six fields"},
      {"malloc,0,0,70000,1,0,7", "a row has six fields"},
      {"malloc,x,0,70000,1,0", "thread is not a number"},
      {"malloc,0,-1,70000,1,0", "block is not a number"},
      {"malloc,0,0,7e4,1,0", "size is not a number of bytes"},
      {"malloc,0,0,99999999999999999999,1,0", "size is not a number of bytes"},
      {"malloc,0,0,70000,3,0", "alignment is not a power of two"},
      {"malloc,0,0,70000,0,0", "alignment is not a power of two"},
      {"malloc,0,0,70000,1,xyz", "site is not a 64-bit number"},
      {"brk,0,0,70000,1,0", "op is not one of malloc"},
      {"free,0,5,,,", "block 5 is freed but was never allocated"},
      {"malloc,0,7,1,1,0", "block 7 is allocated twice"},
      {"free,0,8,,,", "block 8 is freed twice"},
      {"", "a row has six fields"},
  }));
  const std::string error =
      error_of(kHeaderLine + "malloc,0,7,1,1,0\nmalloc,0,8,1,1,0\nfree,0,8,,,\n" + row + "\n");
  INFO(row << " -> " << error);
  CHECK(error.starts_with(":5: " + reason));
}

TEST_CASE("trace csv: files that are no traces are refused", "[io]") {
  CHECK(error_of("").starts_with(":1: the first line must be op,thread"));
  CHECK(error_of("id,lower,upper,size\n").starts_with(":1: the first line must be"));
  CHECK(error_of(kHeaderLine).empty());
  cli::Streams streams;
  CHECK(
      cli::read_streams("no/such/file.csv", 0, streams).starts_with("no/such/file.csv:0: cannot"));
  CHECK(cli::read_streams("/", 0, streams) != "");
}

TEST_CASE("trace csv: a compressed file that is cut short is refused", "[io]") {
  std::ifstream whole("tests/golden/traces/vit_b1.csv.gz", std::ios::binary);
  std::stringstream bytes;
  bytes << whole.rdbuf();
  const TempFile cut(bytes.str().substr(0, bytes.str().size() / 2));
  cli::Streams streams;
  CHECK(cli::read_streams(cut.path(), 0, streams).find("cut short or damaged") !=
        std::string::npos);
}

}  // namespace
}  // namespace memo
