// The plan cache: names, which of two plans of a stream stays, what is not believed, what goes.
#include "src/io/plan_cache.h"

#include <sys/stat.h>
#include <utime.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/schedules.h"

namespace memo {
namespace {

using testing::TempFolder;

std::vector<Step> loop(std::uint64_t from, std::uint32_t count, std::uint32_t start = 0) {
  std::vector<std::uint64_t> sizes;
  for (std::uint32_t i = 0; i < count; ++i) {
    sizes.push_back(from + (i + start) % count * 4096);
  }
  return testing::stacked(sizes);
}

class CacheFixture {
 protected:
  PlanName save(const std::vector<Step>& steps, std::uint64_t height, std::uint32_t iteration = 0,
                bool* saved = nullptr, bool lowest = false) {
    const Plan plan = testing::plan_of(steps, height);
    const SavedPlan whole{plan.get(), iteration != 0 ? iteration : plan->count, lowest};
    const PlanName name = name_of(whole, {});
    const bool good = save_cached(guard_, CacheTurn(folder_.c_str()), folder_.c_str(), whole, name,
                                  describe_maker(), Trust::kOwner);
    if (saved != nullptr) {
      *saved = good;
    }
    return name;
  }
  std::vector<PlanName> names() {
    std::vector<PlanName> all;
    list_cache(
        guard_, folder_.c_str(),
        [](void* context, const PlanName& name) {
          static_cast<std::vector<PlanName>*>(context)->push_back(name);
        },
        &all);
    return all;
  }
  std::string path(const PlanName& name) {
    char text[kCachedNameRoom];
    write_name(name, text);
    return folder_ + "/" + text;
  }
  bool load(const PlanName& name, Cached& cached, std::uint64_t most = UINT64_MAX) {
    return load_cached(guard_, folder_.c_str(), name, most, Trust::kOwner, cached, &problem_);
  }
  void age(const PlanName& name, std::time_t seconds) {
    const utimbuf times{seconds, seconds};
    REQUIRE(utime(path(name).c_str(), &times) == 0);
  }

  RecursionGuard guard_;
  TempFolder temporary_;
  std::string folder_ = temporary_.file("a/b");
  std::string_view problem_;
};

TEST_CASE_METHOD(CacheFixture,
                 "plan cache: a loop has one name wherever it begins, another loop another",
                 "[io]") {
  const auto named = [](const std::vector<Step>& steps, std::uint32_t iteration) {
    const Plan plan = testing::plan_of(steps, 1 << 30);
    return name_of({plan.get(), iteration}, {});
  };
  const PlanName first = named(loop(70'000, 40), 40);
  for (const std::uint32_t start : {1U, 13U, 39U}) {
    const PlanName turned = named(loop(70'000, 40, start), 40);
    CHECK(turned.stream == first.stream);
    CHECK(turned.keys[0] != first.keys[0]);
  }
  CHECK(named(loop(70'000, 40, 10), 40).keys[0] == first.keys[1]);
  CHECK(named(loop(70'000, 40, 30), 40).keys[0] == first.keys[3]);
  CHECK(named(loop(70'001, 40), 40).stream != first.stream);
  CHECK(named(loop(70'000, 40), 20).stream != first.stream);
  std::vector<Step> aligned = loop(70'000, 40);
  aligned[7].alignment_log2 = 12;
  CHECK(named(aligned, 40).stream != first.stream);
  // The key is that of the calls.
  CallWindow window;
  for (std::uint64_t i = 0; i < kKeyCalls; ++i) {
    window.add(70'000 + (i + 20) * 4096, 0);
  }
  CHECK(window.key() == first.keys[2]);
}

TEST_CASE("plan cache: only its own names are names", "[io]") {
  const PlanName name{.stream = 0x1234, .keys = {1, 0xfedcba9876543210, 3, 0}};
  char text[kCachedNameRoom];
  write_name(name, text);
  PlanName parsed;
  REQUIRE(parse_name(text, parsed));
  CHECK(parsed == name);
  const std::string good = text;
  for (const std::string& bad :
       {good + "x", good.substr(1), "x" + good.substr(1), good + ".1-2.tmp", std::string("a.plan"),
        std::string(), std::string(good).replace(16, 1, "_"),
        std::string(16, '0') + good.substr(16)}) {
    CHECK_FALSE(parse_name(bad, parsed));
  }
}

TEST_CASE_METHOD(CacheFixture, "plan cache: of equal streams the lower plan stays", "[io]") {
  const PlanName high = save(loop(70'000, 40), 9 << 20);
  Cached cached;
  REQUIRE(load(high, cached));
  CHECK(cached.plan.plan->height == 9 << 20);
  CHECK(cached.plan.iteration == 40);
  CHECK(std::string(cached.record.library) == MEMO_VERSION);
  const PlanName higher = save(loop(70'000, 40, 3), 10 << 20);
  CHECK(names() == std::vector<PlanName>{high});
  const PlanName lower = save(loop(70'000, 40, 7), 8 << 20);
  CHECK(names() == std::vector<PlanName>{lower});
  CHECK_FALSE(load(higher, cached));
  CHECK(problem_.empty());  // it is not there
  const PlanName other = save(loop(80'000, 40), 20 << 20);
  CHECK(names().size() == 2);
  CHECK(load(other, cached));
}

TEST_CASE_METHOD(CacheFixture, "plan cache: that a search has ended is kept", "[io]") {
  const auto saved_after = [&](bool lowest) {
    const PlanName name = save(loop(70'000, 40), 9 << 20, 0, nullptr, lowest);
    Cached cached;
    REQUIRE(load(name, cached));
    return cached.plan.plan->lowest;
  };
  CHECK_FALSE(saved_after(false));
  CHECK(saved_after(true));
  CHECK(saved_after(false));  // another process, which has not searched
}

TEST_CASE_METHOD(CacheFixture,
                 "plan cache: a file of another name, height or owner is not believed", "[io]") {
  const PlanName name = save(loop(70'000, 40), 9 << 20);
  Cached cached;
  CHECK_FALSE(load(name, cached, 8 << 20));
  CHECK(problem_.find("over the limit") != std::string_view::npos);
  PlanName other = name;
  other.keys[2] ^= 1U;
  std::filesystem::copy_file(path(name), path(other));
  CHECK_FALSE(load(other, cached));
  CHECK(problem_ == "its name is another plan's");
  CHECK_FALSE(cached.plan.plan);
  chmod(path(name).c_str(), 0666);
  CHECK_FALSE(load(name, cached));
  CHECK(problem_.find("chmod o-w") != std::string_view::npos);
  chmod(path(name).c_str(), 0644);
  CHECK(doubt_about_cache(folder_.c_str(), Trust::kOwner).empty());
  chmod(folder_.c_str(), 0777);
  CHECK_FALSE(doubt_about_cache(folder_.c_str(), Trust::kGroup).empty());
  CHECK_FALSE(doubt_about_cache(path(name).c_str(), Trust::kOwner).empty());
  CHECK(doubt_about_cache((folder_ + "/none").c_str(), Trust::kOwner).empty());
}

TEST_CASE_METHOD(CacheFixture, "plan cache: a damaged plan is no plan of its stream", "[io]") {
  const PlanName name = save(loop(70'000, 40), 9 << 20);
  const std::string good = testing::read_file(path(name));
  for (std::size_t at = 0; at < good.size(); at += at < 11 ? 1 : 7) {
    if (at >= 12 && at < 32) {
      continue;  // how many plans, of which the first is read, and the library's name for a message
    }
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bad;
    Cached cached;
    CHECK_FALSE(load(name, cached));
    CHECK(problem_.empty() == (at >= 8 && at < 12));  // another version of the library
  }
  save(loop(70'000, 40), 10 << 20);
  Cached cached;
  CHECK(load(name, cached));
}

TEST_CASE_METHOD(CacheFixture, "plan cache: what was used longest ago goes first", "[io]") {
  std::vector<PlanName> all;
  for (std::uint64_t i = 0; i < 5; ++i) {
    all.push_back(save(loop(70'000 + i, 40), 9 << 20));
    age(all.back(), 1'000'000 + static_cast<std::time_t>(i) * 1000);
  }
  note_use(folder_.c_str(), all[0]);
  const std::uint64_t each = std::filesystem::file_size(path(all[0]));
  CHECK(prune_cache(guard_, folder_.c_str(), {.plans = 5, .bytes = 5 * each}).plans == 0);
  const Pruned few = prune_cache(guard_, folder_.c_str(), {.plans = 4, .bytes = 5 * each});
  CHECK((few.plans == 1 && few.bytes == each));
  Cached cached;
  CHECK_FALSE(load(all[1], cached));
  CHECK(load(all[0], cached));
  CHECK(prune_cache(guard_, folder_.c_str(), {.plans = 9, .bytes = 2 * each}).plans == 2);
  CHECK(load(all[0], cached));
  CHECK(load(all[4], cached));
  CHECK(
      prune_cache(guard_, folder_.c_str(), {.plans = 9, .bytes = 9 * each, .unused = 1000}).plans ==
      1);
  CHECK(names() == std::vector<PlanName>{all[0]});
}

TEST_CASE_METHOD(CacheFixture,
                 "plan cache: what a killed writer left is swept away, what another writes is not",
                 "[io]") {
  const PlanName name = save(loop(70'000, 40), 9 << 20);
  const std::string old = path(name) + ".12-34.tmp";
  const std::string fresh = path(name) + ".12-35.tmp";
  const std::string foreign = folder_ + "/notes.tmp";
  for (const std::string& left : {old, fresh, foreign}) {
    std::ofstream(left) << "MEMO";
  }
  const utimbuf long_ago{1000, 1000};
  utime(old.c_str(), &long_ago);
  utime(foreign.c_str(), &long_ago);
  CHECK(prune_cache(guard_, folder_.c_str(), {.plans = 9, .bytes = 9 << 20}).left_over == 1);
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(fresh));
  CHECK(std::filesystem::exists(foreign));
  CHECK(names() == std::vector<PlanName>{name});
}

TEST_CASE_METHOD(CacheFixture, "plan cache: it is noted once an hour that a plan is in use",
                 "[io]") {
  const PlanName name = save(loop(70'000, 40), 9 << 20);
  const auto noted = [&](std::time_t seconds) {
    const std::time_t before = std::time(nullptr) - seconds;
    age(name, before);
    note_use(folder_.c_str(), name);
    struct stat status{};
    REQUIRE(stat(path(name).c_str(), &status) == 0);
    return status.st_mtim.tv_sec != before;
  };
  CHECK_FALSE(noted(2500));
  CHECK(noted(5000));
}

TEST_CASE_METHOD(CacheFixture, "plan cache: a writer is taken to be gone after an hour", "[io]") {
  const std::string half = path(save(loop(70'000, 40), 9 << 20)) + ".12-34.tmp";
  const auto left_over = [&](std::time_t seconds) {
    std::ofstream(half) << "MEMO";
    const utimbuf past{std::time(nullptr) - seconds, std::time(nullptr) - seconds};
    utime(half.c_str(), &past);
    return prune_cache(guard_, folder_.c_str(), {}).left_over;
  };
  CHECK(left_over(2500) == 0);
  CHECK(left_over(5000) == 1);
}

TEST_CASE_METHOD(CacheFixture, "plan cache: ten thousand plans are kept, and 256 MiB", "[io]") {
  PlanName name = save(loop(70'000, 40), 9 << 20);
  SECTION("plans") {
    for (name.stream = 1; name.stream < 12'000; ++name.stream) {
      std::ofstream(path(name)) << "MEMO";
    }
    const Pruned pruned = prune_cache(guard_, folder_.c_str(), {});
    CHECK(pruned.plans >= 1000);
    CHECK(pruned.plans <= 3000);
  }
  SECTION("bytes") {
    for (name.stream = 1; name.stream < 5; ++name.stream) {
      std::ofstream(path(name)) << "MEMO";
      std::filesystem::resize_file(path(name), 100 << 20);  // no room is taken
    }
    CHECK(prune_cache(guard_, folder_.c_str(), {}).plans == 2);
  }
}

TEST_CASE_METHOD(CacheFixture, "plan cache: a folder that cannot be made is reported", "[io]") {
  folder_ = "/proc/none/plans";
  bool saved = true;
  save(loop(70'000, 40), 9 << 20, 0, &saved);
  CHECK_FALSE(saved);
  CHECK(errno != 0);
  CHECK(names().empty());
}

}  // namespace
}  // namespace memo
