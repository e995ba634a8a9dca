// Temporary files. Cold.
#include "src/cli/temporary.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace memo::cli {
namespace {

std::string name_template() {
  return (std::filesystem::temp_directory_path() / "memomalloc-XXXXXX").string();
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = name_template();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

TemporaryFile::TemporaryFile() {
  std::string name = name_template();
  descriptor_ = mkostemp(name.data(), O_CLOEXEC | O_APPEND);
  if (descriptor_ < 0) {
    throw std::system_error(errno, std::generic_category(), name);
  }
  unlink(name.c_str());
}

TemporaryFile::~TemporaryFile() {
  close(descriptor_);
}

std::string TemporaryFile::contents() const {
  std::string text;
  std::array<char, 65536> chunk{};
  off_t at = 0;
  for (ssize_t n = 0; (n = pread(descriptor_, chunk.data(), chunk.size(), at)) > 0; at += n) {
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
  return text;
}

void TemporaryFile::clear() const {
  if (ftruncate(descriptor_, 0) != 0) {
    throw std::system_error(errno, std::generic_category(), "temporary file");
  }
}

std::vector<nlohmann::json> read_json_files(const std::filesystem::path& folder) {
  std::vector<nlohmann::json> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") {
      std::ifstream file(entry.path());
      nlohmann::json value = nlohmann::json::parse(file, nullptr, false);
      if (value.is_object()) {
        found.push_back(std::move(value));
      }
    }
  }
  return found;
}

}  // namespace memo::cli
