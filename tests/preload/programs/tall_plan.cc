// A stored plan of a loop that needs 1500 MiB, or all that a slab may have on a small machine, under a
// program that needs four and whose calls it fits but for the tall one: the program needs no more
// memory than without the plan. The program starts itself: to have the plan made, and then without
// plans and with it.
#include <errno.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "support.h"

namespace {

// Bytes: three eighths of the machine's memory, since a slab may have half of it.
std::uint64_t tall() {
  const std::uint64_t all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min<std::uint64_t>(1500ULL << 20, all * 3 / 8 / MIB(1) * MIB(1));
}
// Small calls of an iteration. The library finds a stored plan by eight calls in a row, which it
// takes at the plan's start and after each quarter. With 16 small calls, some of these rows have no
// tall call, wherever the plan starts.
constexpr unsigned kMatching = 16;
constexpr long kByChance = 4 << 10;  // KiB, by which two runs differ, and for the file itself

std::uint64_t block_size(unsigned i) {
  return KIB(100) + i * KIB(8);
}

// KiB that the matching calls may come to hold: they lie in one huge page, which is larger where
// small pages are.
long allowance() {
  long bytes = 2 << 20;
  if (FILE* file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r")) {
    CHECK(fscanf(file, "%ld", &bytes) == 1);
    fclose(file);
  }
  return kByChance + (bytes >> 10);
}

// The most memory that this process has had, KiB.
long peak() {
  FILE* status = fopen("/proc/self/status", "r");
  char line[256];
  long result = -1;
  while (status && fgets(line, sizeof line, status))
    sscanf(line, "VmHWM: %ld", &result);
  if (status)
    fclose(status);
  return result;
}

void pause_for(long milliseconds) {
  timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&time, &time) != 0 && errno == EINTR) {
  }
}

// `with_tall`: each iteration also takes a tall block, of which nothing is written.
void child(const char* answer, bool with_tall) {
  for (unsigned round = 0; round < (with_tall ? 60 : 30); ++round) {
    for (unsigned i = 0; i < kMatching; ++i) {
      void* block = malloc(block_size(i));
      CHECK(block);
      fill(block, block_size(i), i);
      CHECK(filled(block, block_size(i), i));
      free(block);
    }
    void* untouched = with_tall ? malloc(tall()) : nullptr;
    CHECK((untouched != nullptr) == with_tall);
    free(untouched);
    if (round == 3)
      pause_for(1500);  // whoever makes memory ready in the background has done it by then
  }
  FILE* file = fopen(answer, "w");
  CHECK(file && fprintf(file, "%ld %ld\n", peak(), counter("plans_loaded")) > 0 &&
        fclose(file) == 0);
}

struct Answer {
  long peak = -1;         // KiB
  long plans_loaded = 0;  // that the child took from the folder
};

// What the child of that name tells.
Answer run_of(const char* kind, const std::string& path) {
  CHECK(run_again(kind, path.c_str(), nullptr) == 0);
  Answer answer;
  FILE* file = fopen(path.c_str(), "r");
  CHECK(file && fscanf(file, "%ld %ld", &answer.peak, &answer.plans_loaded) == 2 &&
        fclose(file) == 0 && answer.peak > 0);
  unlink(path.c_str());
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    child(argv[2], strcmp(argv[1], "tall") == 0);
    return 0;
  }
  char folder[] = "/tmp/tall_plan.XXXXXX";
  CHECK(mkdtemp(folder));
  const std::string plans = std::string(folder) + "/plans",
                    answer = std::string(folder) + "/answer";
  const long without = run_of("small", answer).peak;
  CHECK(setenv("MEMOMALLOC_PLANS", plans.c_str(), 1) == 0);
  run_of("tall", answer);
  if (serving_expected())
    CHECK(std::filesystem::exists(plans) && !std::filesystem::is_empty(plans));
  const auto [with, loaded] = run_of("small", answer);
  if (serving_expected())
    CHECK(loaded > 0);  // else there is nothing to be compared
  if (with > without + allowance())
    dprintf(STDERR_FILENO, "peak of %ld KiB, without the plan %ld\n", with, without);
  CHECK(with <= without + allowance());
  std::filesystem::remove_all(folder);
  printf("tall plan ok\n");
  return 0;
}
