// Regenerates the tables of Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
// Inference" (2020), for five of their six networks, and states each cell: what the paper prints
// and what comes out here, in units of 2^20 bytes.
//
// Where the two differ, the reason is one of:
//   - the paper does not say how ties (equal sizes, equally full operators) are broken, and most
//   tensors
//     of these networks have an equal one. Of the combinations of ties for shared objects by
//     breadth, some give one and some another of four of the paper's five cells, and none more than
//     three;
//   - the tensors are read off the published networks, and those of DeepLab, Inception and PoseNet
//   are not
//     the paper's to the last one: the sums of all sizes ("naive") differ by up to 6 %, although
//     the bounds of offsets agree. So shared objects for PoseNet come out below what the paper
//     calls their bound.
// BlazeFace, the sixth, is not among the instances: its tensors are not published with the paper.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "dsa/csv.h"
#include "dsa/planner.h"
#include "planner/shared_objects.h"

namespace {

constexpr std::array<const char*, 5> kNetworks = {"mobilenet_v1", "mobilenet_v2", "deeplab_v3",
                                                  "inception_v3", "posenet"};
constexpr double kSame = 0;  // as the paper prints it

struct Row {
  const char* planner;
  std::array<double, 5> paper;
  std::array<double, 5> here;  // kSame, or what comes out instead
};

constexpr Row kSharedObjects[] = {
    {"shared-by-size", {4.594, 7.178, 6.437, 10.337, 6.347}, {5.359, 6.986, 7.102, 10.386, 8.390}},
    {"shared-by-size-improved",
     {4.594, 6.891, 6.437, 10.337, 6.347},
     {kSame, 6.699, 6.769, 10.609, 6.299}},
    {"shared-by-breadth",
     {6.125, 6.699, 6.437, 10.676, 8.390},
     {4.594, 6.891, 6.769, 10.562, 6.872}},
    {"shared-lee", {4.594, 8.039, 7.168, 12.703, 6.347}, {kSame, kSame, kSame, 11.505, 6.299}},
    {"min-cost-flow", {5.359, 7.513, 8.364, 10.624, 7.359}, {kSame, kSame, 8.782, 11.287, 7.931}},
};

constexpr Row kOffsets[] = {
    {"greedy-by-size", {4.594, 5.742, 4.653, 7.914, 6.271}, {kSame, kSame, kSame, kSame, kSame}},
    {"greedy-by-breadth", {4.594, 5.742, 4.653, 7.914, 7.359}, {kSame, kSame, kSame, 8.203, 6.271}},
    {"greedy-lee", {6.125, 6.508, 4.985, 10.624, 8.362}, {kSame, kSame, kSame, kSame, kSame}},
    {"strip-packing-best-fit",
     {4.594, 6.029, 4.321, 7.914, 6.271},
     {kSame, 5.742, kSame, kSame, kSame}},
    {"bump", {19.248, 26.313, 48.642, 54.010, 28.556}, {kSame, kSame, 50.083, 54.000, 30.179}},
    {"portfolio",  // the paper's "lower bound": reached on every network
     {4.594, 5.742, 4.320, 7.914, 6.271},
     {kSame, kSame, kSame, kSame, kSame}},
};

dsa::Problem network(std::size_t index) {
  const std::string path =
      std::string("tests/golden/instances/pisarchyk_lee/") + kNetworks[index] + ".csv";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto read = dsa::parse_csv(text, path);
  REQUIRE(read.table);
  return std::move(read.table->problem);
}

double mebibytes(dsa::Bytes bytes) {
  return static_cast<double>(bytes) / 1048576;
}

void check(const Row& row) {
  const dsa::Planner* planner = dsa::find_planner(row.planner);
  REQUIRE(planner != nullptr);
  for (std::size_t i = 0; i < kNetworks.size(); ++i) {
    INFO(row.planner << " on " << kNetworks[i]);
    const dsa::Outcome outcome = planner->run(network(i), {});
    REQUIRE(outcome.plan);
    const double expected = row.here[i] == kSame ? row.paper[i] : row.here[i];
    CHECK(mebibytes(outcome.plan->height) == Approx(expected).margin(0.0011));
  }
}

}  // namespace

TEST_CASE("papers: table 1 of Pisarchyk & Lee, shared objects", "[planner][papers]") {
  for (const Row& row : kSharedObjects) {
    check(row);
  }
}

TEST_CASE("papers: table 2 of Pisarchyk & Lee, offsets", "[planner][papers]") {
  for (const Row& row : kOffsets) {
    check(row);
  }
}

TEST_CASE("papers: the bound of shared objects is the sum of the positional maxima",
          "[planner][papers]") {
  constexpr std::array<double, 5> kPaper = {4.594, 6.604, 6.105, 8.955, 6.347};
  constexpr std::array<double, 5> kHere = {kSame, kSame, kSame, 9.132, 6.299};
  for (std::size_t i = 0; i < kNetworks.size(); ++i) {
    INFO(kNetworks[i]);
    const dsa::Problem problem = network(i);
    dsa::Bytes sum = 0;
    const dsa::Model model(problem);
    const auto begin = dsa::Budget::Clock::now();
    CHECK(dsa::positional_maxima(model, {{.seconds = 0}, model.bound, begin}).empty());
    for (const dsa::Bytes size :
         dsa::positional_maxima(model, {{.seconds = 600}, model.bound, begin})) {
      sum += size;
    }
    CHECK(mebibytes(sum) == Approx(kHere[i] == kSame ? kPaper[i] : kHere[i]).margin(0.0011));
    for (const Row& row : kSharedObjects) {
      CHECK(dsa::find_planner(row.planner)->run(problem, {}).plan->height >= sum);
    }
  }
}
