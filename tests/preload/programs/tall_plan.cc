// A plan file of a loop that needs 1500 MiB, or all that a slab may have on a small machine, under a
// program that needs four: whether no call of the program fits it, or the first eight do, the program
// needs no more memory than without the file. The program starts itself, without a file and with
// each.
#include <errno.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

// Bytes: three eighths of the machine's memory, since a slab may have half of it.
std::uint64_t tall() {
  const std::uint64_t all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min<std::uint64_t>(1500ULL << 20, all * 3 / 8 / MIB(1) * MIB(1));
}
constexpr unsigned kMatching = 8;    // calls after which a plan is taken up
constexpr long kByChance = 4 << 10;  // KiB, by which two runs differ, and for the file itself

std::uint64_t block_size(unsigned i) {
  return KIB(100) + i * KIB(8);
}

// The layout of src/io/plan_records.cc, for one plan of `kMatching` small steps and a tall one.
std::vector<char> plan_file(std::uint64_t first_size) {
  const std::uint64_t none = 0;
  std::vector<char> rest;
  const auto append = [&rest](const auto& value) {
    const char* bytes = reinterpret_cast<const char*>(&value);
    rest.insert(rest.end(), bytes, bytes + sizeof value);
  };
  append(tall());  // height
  append(tall());  // bound
  append(kMatching + 1);
  append(kMatching + 1);
  append(none);
  for (unsigned i = 0; i < kMatching; ++i) {
    append(first_size + i * KIB(8));
    append(i * std::uint64_t{KIB(160)});
    append(none);
    append(none);
  }
  append(tall());
  append(none);
  append(none);
  append(none);
  std::vector<char> file(40);
  const std::uint32_t version = 2, plans = 1;
  const std::uint64_t checksum = XXH3_64bits(rest.data(), rest.size());
  memcpy(file.data(), "MEMOPLAN", 8);
  memcpy(file.data() + 8, &version, sizeof version);
  memcpy(file.data() + 12, &plans, sizeof plans);
  memcpy(file.data() + 32, &checksum, sizeof checksum);
  file.insert(file.end(), rest.begin(), rest.end());
  return file;
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

void child(const char* answer) {
  for (unsigned round = 0; round < 30; ++round) {
    for (unsigned i = 0; i < kMatching; ++i) {
      void* block = malloc(block_size(i));
      CHECK(block);
      fill(block, block_size(i), i);
      CHECK(filled(block, block_size(i), i));
      free(block);
    }
    if (round == 3)
      pause_for(1500);  // whoever makes memory ready in the background has done it by then
  }
  FILE* file = fopen(answer, "w");
  CHECK(file && fprintf(file, "%ld\n", peak()) > 0 && fclose(file) == 0);
}

// The peak of a run with these bytes as its plan file; without any if they are empty.
long run_with(const std::string& folder, const std::vector<char>& bytes) {
  const std::string plans = folder + "/plans", answer = folder + "/answer";
  unsetenv("MEMOMALLOC_PLAN_FILE");
  if (!bytes.empty()) {
    FILE* file = fopen(plans.c_str(), "wb");
    CHECK(file && fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
    CHECK(fclose(file) == 0 && setenv("MEMOMALLOC_PLAN_FILE", plans.c_str(), 1) == 0);
  }
  CHECK(run_again("child", answer.c_str(), nullptr) == 0);
  long result = -1;
  FILE* file = fopen(answer.c_str(), "r");
  CHECK(file && fscanf(file, "%ld", &result) == 1 && fclose(file) == 0 && result > 0);
  unlink(plans.c_str());
  unlink(answer.c_str());
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    child(argv[2]);
    return 0;
  }
  char folder[] = "/tmp/tall_plan.XXXXXX";
  CHECK(mkdtemp(folder));
  const long without = run_with(folder, {});
  for (const std::uint64_t first : {std::uint64_t{KIB(200) + 8}, block_size(0)}) {
    const long with = run_with(folder, plan_file(first));
    if (with > without + allowance())
      dprintf(STDERR_FILENO, "peak of %ld KiB, without the file %ld\n", with, without);
    CHECK(with <= without + allowance());
  }
  rmdir(folder);
  printf("tall plan ok\n");
  return 0;
}
