// Temporary files and folders of a command, gone when their object goes. Cold.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace memo::cli {

// A folder under TMPDIR. Throws std::system_error if it cannot be made.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A nameless file that a child may write to.
class TemporaryFile {
 public:
  TemporaryFile();
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::string contents() const;
  void clear() const;

 private:
  int descriptor_ = -1;
};

// Every object in the folder's `*.json` files, whole ones only: what the processes of a command
// left through MEMOMALLOC_STATS_FILE.
std::vector<nlohmann::json> read_json_files(const std::filesystem::path& folder);

}  // namespace memo::cli
