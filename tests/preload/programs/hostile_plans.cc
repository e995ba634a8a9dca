// A planner that is wrong in everything: stored plans whose steps lie anywhere in the slab, over each
// other, with a checksum that says they are whole. The page
// map alone must keep every block's contents its own. The program starts itself: first to have a
// plan written, then to be served from the falsified ones.
#include <malloc.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "support.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

// The layout of src/io/plan_records.cc: a header of 40 bytes with the checksum at its end, and then
// the plan, a header of 40 bytes (height first, number of steps at 16) and steps of 32 (offset at 8).
// Sizes and alignments are in the file's name as well, which keeps to what it says.
constexpr std::size_t kFileHeader = 40, kChecksum = 32, kPlanHeader = 40, kStep = 32;
constexpr std::uint64_t kPage = 4096;

template <typename Value>
Value& at(std::vector<char>& bytes, std::size_t offset) {
  CHECK(offset + sizeof(Value) <= bytes.size());
  return *reinterpret_cast<Value*>(bytes.data() + offset);
}

std::uint64_t next_random() {
  static std::uint64_t state = 12345;
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state >> 33;
}

std::size_t falsify(std::vector<char>& bytes) {
  const auto height = at<std::uint64_t>(bytes, kFileHeader);
  const auto count = at<std::uint32_t>(bytes, kFileHeader + 16);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t step = kFileHeader + kPlanHeader + i * kStep;
    const auto size = at<std::uint64_t>(bytes, step);
    if (size <= height)
      at<std::uint64_t>(bytes, step + 8) = next_random() % ((height - size) / kPage + 1) * kPage;
  }
  at<std::uint64_t>(bytes, kChecksum) =
      XXH3_64bits(bytes.data() + kFileHeader, bytes.size() - kFileHeader);
  return count;
}

using Plans = std::map<std::string, std::vector<char>>;  // by the file's path

Plans load(const std::string& folder) {
  Plans plans;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    std::ifstream file(entry.path(), std::ios::binary);
    plans[entry.path()].assign(std::istreambuf_iterator<char>(file), {});
  }
  return plans;
}

// Overlapping lifetimes and one strict alignment; every block is filled and compared.
void iterate() {
  void* blocks[kStepCount];
  void* aligned = nullptr;
  take_steps(blocks);
  CHECK(posix_memalign(&aligned, MIB(1), KIB(200)) == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(aligned) % MIB(1) == 0);
  fill(aligned, KIB(200), 99);
  for (unsigned i = 0; i < kStepCount; i += 2) {
    CHECK(filled(blocks[i], step_size(i), i));
    free(blocks[i]);
    blocks[i] = calloc(1, step_size(i) + KIB(4));
    CHECK(blocks[i] && all_zero(blocks[i], step_size(i) + KIB(4)));
    fill(blocks[i], step_size(i), i);
  }
  CHECK(filled(aligned, KIB(200), 99));
  free(aligned);
  free_steps(blocks);
}

constexpr int kLoaded = 7;  // a child's exit code where it has taken a stored plan

// True if the child has loaded a plan from the folder; false if it has only learned its own.
bool loads_in_child(const std::string& plans) {
  setenv("MEMOMALLOC_PLANS", plans.c_str(), 1);
  const int status = run_again("child", nullptr, nullptr);
  CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kLoaded));
  return WEXITSTATUS(status) == kLoaded;
}

}  // namespace

int main(int argc, char**) {
  if (argc == 2) {
    for (int i = 0; i < 60; ++i)
      iterate();
    // With the true plan all is served, with a false one some places are found occupied.
    if (serving_expected())
      CHECK(counter("planned_allocations") > 0);
    return counter("plans_loaded") > 0 ? kLoaded : 0;
  }
  const std::string folder = "/tmp/hostile_plans." + std::to_string(getpid());
  CHECK(!loads_in_child(folder));
  const Plans good = load(folder);
  if (serving_expected())
    CHECK(!good.empty());
  unsigned loaded = 0;
  for (unsigned i = 0; i < repeated(25, 5); ++i) {
    std::size_t changed = 0;
    for (auto [path, bytes] : good) {
      changed += falsify(bytes);
      std::ofstream(path, std::ios::binary)
          .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    CHECK(good.empty() || changed >= kStepCount);
    loaded += loads_in_child(folder);
  }
  // A file that is refused for its version or its checksum would test nothing.
  CHECK(!serving_expected() || loaded > 0);
  std::filesystem::remove_all(folder);
  printf("hostile plans ok\n");
  return 0;
}
