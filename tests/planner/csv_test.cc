// The CSV reader and writer, on good and on hostile text.
#include "dsa/csv.h"

#include <catch2/catch.hpp>
#include <string>

using dsa::format_csv;
using dsa::parse_csv;

namespace {

std::string error_of(std::string_view text) {
  return parse_csv(text, "p.csv").error;
}

}  // namespace

TEST_CASE("csv: columns come in any order, with any line end", "[planner]") {
  const auto result = parse_csv(
      "\xEF\xBB\xBFsize,id,upper,lower,gaps,alignment,offset\r\n"
      "64, a ,9,-3,-2-0 4-5,16,32\r\n"
      "1,b,2,1,,,\r\n\r\n",
      "p.csv");
  REQUIRE(result.table);
  const auto& buffers = result.table->problem.buffers;
  REQUIRE(buffers.size() == 2);
  CHECK(result.table->ids == std::vector<std::string>{"a", "b"});
  CHECK(buffers[0].lower == -3);
  CHECK(buffers[0].upper == 9);
  CHECK(buffers[0].size == 64);
  CHECK(buffers[0].alignment == 16);
  CHECK(buffers[0].gaps == std::vector<dsa::Interval>{{-2, 0}, {4, 5}});
  CHECK(buffers[0].fixed == 32);
  CHECK(buffers[1].alignment == 1);
  CHECK_FALSE(buffers[1].fixed);
}

TEST_CASE("csv: what is written reads back the same", "[planner]") {
  const std::string text =
      "id,lower,upper,size,alignment,gaps,offset\n"
      "x,0,9,64,16,2-3 5-6,32\n"
      "y,1,4,8,1,,\n";
  const auto result = parse_csv(text, "p.csv");
  REQUIRE(result.table);
  CHECK(format_csv(*result.table, nullptr) == text);
  const dsa::Plan plan{{32, 96}, 104};
  const auto planned = parse_csv(format_csv(*result.table, &plan), "q.csv");
  REQUIRE(planned.table);
  CHECK(planned.table->problem.buffers[1].fixed == 96);
}

TEST_CASE("csv: an empty problem is a problem", "[planner]") {
  const auto result = parse_csv("id,lower,upper,size\n", "p.csv");
  REQUIRE(result.table);
  CHECK(result.table->problem.buffers.empty());
}

TEST_CASE("csv: errors name file, line and reason", "[planner]") {
  const std::string head = "id,lower,upper,size\n";
  CHECK(error_of("").starts_with("p.csv:1: the first line must name the columns"));
  CHECK(error_of("id,lower,upper\n") == "p.csv:1: column 'size' is missing");
  CHECK(error_of("id,lower,upper,size,colour\n") == "p.csv:1: there is no column 'colour'");
  CHECK(error_of("id,id,lower,upper,size\n") == "p.csv:1: column 'id' is named twice");
  CHECK(error_of(head + "0,0,1,5\n1,0,1\n") == "p.csv:3: the row has 3 fields, the header 4");
  CHECK(error_of(head + "0,0,1,5,6\n") == "p.csv:2: the row has 5 fields, the header 4");
  CHECK(error_of(head + "0,0,1,9223372036854775808\n") ==
        "p.csv:2: size: 9223372036854775808 does not fit in 63 bits");
  CHECK(error_of(head + "0,0,1,abc\n") == "p.csv:2: size: 'abc' is not a number");
  CHECK(error_of(head + "0,0,1,1.5\n") == "p.csv:2: size: '1.5' is not a number");
  CHECK(error_of(head + "0,0,1,5\n0,0,1,5\n") == "p.csv:3: id '0' occurs twice");
  CHECK(error_of(head + "0,3,1,5\n") == "p.csv:2: the lifetime [3, 1) is empty or reversed");
  CHECK(error_of(head + "0,0,1,-5\n") == "p.csv:2: the size -5 is negative");
  CHECK(error_of(head + ",0,1,5\n") == "p.csv:2: the id is empty");
  CHECK(error_of("id,lower,upper,size,gaps\n0,0,9,5,3\n") ==
        "p.csv:2: gaps: '3' is not of the form a-b");
  CHECK(error_of("id,lower,upper,size,gaps\n0,0,9,5,3-12\n") ==
        "p.csv:2: the gap 3-12 is empty, out of order or outside the lifetime");
  const std::string most = ",0,1,9223372036854775807\n";
  CHECK(error_of(head + "0" + most + "1" + most) ==
        "p.csv:3: the sizes and alignments add up to more than 63 bits");
}

TEST_CASE("csv: a million rows are read, and a fault in the last one is named by its line",
          "[planner]") {
  constexpr int kRows = 1'000'000;
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < kRows; ++i) {
    const std::string n = std::to_string(i);
    text += n + "," + n + "," + std::to_string(i + 3) + ",64\n";
  }
  const auto result = parse_csv(text, "p.csv");
  REQUIRE(result.table);
  CHECK(result.table->problem.buffers.size() == kRows);
  CHECK(result.table->problem.buffers.back().lower == kRows - 1);
  CHECK(error_of(text + "last,5,4,1\n").starts_with("p.csv:1000002: "));
}
