// The report's other half: where glibc puts the same blocks. Cold.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "src/cli/base/process.h"
#include "src/cli/base/temporary.h"
#include "src/cli/report/report_model.h"

namespace memo::cli {
namespace {

// Holes of at least this size are left out of the drawing and of the sum: they are other mappings,
// not fragmentation.
constexpr std::uint64_t kHole = 1U << 20U;

// Thread -> by allocation.
using AddressesOfThreads = std::map<std::uint32_t, std::vector<std::uint64_t>>;

AddressesOfThreads read_addresses(const std::filesystem::path& path, std::uint64_t threshold) {
  AddressesOfThreads addresses;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) {
    unsigned thread = 0;
    unsigned long long size = 0;
    unsigned long long address = 0;
    if (std::sscanf(line.c_str(), "%u,%llu,%llu", &thread, &size, &address) == 3 &&
        size >= threshold) {
      addresses[thread].push_back(address);
    }
  }
  return addresses;
}

// Turns addresses into distances from the layout's start, holes left out.
void compress(const std::vector<std::uint64_t>& addresses, ThreadMap& map) {
  std::vector<MapBlock*> blocks;
  for (MapBlock& block : map.blocks) {
    if (block.allocation < addresses.size()) {
      block.elsewhere = addresses[block.allocation];
      blocks.push_back(&block);
    }
  }
  std::sort(blocks.begin(), blocks.end(), [](const MapBlock* left, const MapBlock* right) {
    return *left->elsewhere < *right->elsewhere;
  });
  std::uint64_t end = blocks.empty() ? 0 : *blocks.front()->elsewhere;  // of what was seen so far
  std::uint64_t left_out = end;
  for (MapBlock* block : blocks) {
    const std::uint64_t address = *block->elsewhere;
    if (address > end && address - end >= kHole) {
      left_out += address - end;
    }
    end = std::max(end, address + block->size);
    block->elsewhere = address - left_out;
  }
  map.glibc_bytes = end - left_out;
}

}  // namespace

std::string add_glibc_layout(const std::string& trace, std::uint64_t threshold,
                             std::vector<ThreadMap>& maps) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "addresses.csv";
  const TemporaryFile ignored;
  const CommandLine line{
      .words = {"/proc/self/exe", "replay", trace, "--no-touch", "--addresses", path},
      .environment = {{"LD_PRELOAD", std::nullopt}},
      .output = ignored.descriptor()};
  const std::optional<Usage> usage = run_to_end(line);
  if (!usage || usage->exit_code != 0) {
    return "the replay under glibc failed; its layout is left out";
  }
  const AddressesOfThreads addresses = read_addresses(path, threshold);
  for (ThreadMap& map : maps) {
    if (const auto found = addresses.find(map.thread); found != addresses.end()) {
      compress(found->second, map);
    }
  }
  return "";
}

}  // namespace memo::cli
