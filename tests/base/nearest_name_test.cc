#include "src/base/nearest_name.h"

#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

namespace memo {
namespace {

std::string_view nearest(std::string_view word, std::initializer_list<std::string_view> names) {
  NearestName nearest(word);
  for (const std::string_view name : names) {
    nearest.offer(name);
  }
  return nearest.found();
}

TEST_CASE("nearest name: a slip of a letter or two is found", "[base]") {
  const std::initializer_list<std::string_view> names = {"run",    "plan",    "plans",  "planners",
                                                         "replay", "analyze", "report", "doctor"};
  CHECK(nearest("analize", names) == "analyze");  // changed
  CHECK(nearest("anaylze", names) == "analyze");  // exchanged
  CHECK(nearest("repport", names) == "report");   // put in
  CHECK(nearest("docto", names) == "doctor");     // left out
  CHECK(nearest("rum", names) == "run");
  CHECK(nearest("urn", names) == "run");
  CHECK(nearest("RUN", names) == "run");     // large
  CHECK(nearest("plane", names) == "plan");  // the first of two as near
  CHECK(nearest("analyze", names) == "analyze");
}

TEST_CASE("nearest name: another word is not a slip", "[base]") {
  CHECK(nearest("python", {"plan", "report"}).empty());
  CHECK(nearest("nur", {"run"}) == "");
  CHECK(nearest("", {"run"}).empty());
  CHECK(nearest("run", {}).empty());
  CHECK(nearest("x", {"run", "report"}).empty());
  const std::string most(NearestName::kMaxLetters, 'a');
  CHECK(nearest(most, {most}) == most);
  CHECK(nearest(most + 'a', {most + 'a'}).empty());
}

}  // namespace
}  // namespace memo
