// Archives of a few small files, as tar writes them (POSIX ustar). Cold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace memo::cli {

struct TarFile {
  std::string name;           // at most 99 bytes
  std::uint64_t written = 0;  // seconds since 1970
  std::string bytes;
};

std::string write_tar(const std::vector<TarFile>& files);

// The regular files of an archive, each without the folders of its name; none if it is no whole
// archive. Of what else is in it nothing is said.
std::optional<std::vector<TarFile>> read_tar(const std::string& archive);

}  // namespace memo::cli
