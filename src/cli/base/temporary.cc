// Temporary files. Cold.
#include "src/cli/base/temporary.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace memo::cli {
namespace {

[[noreturn]] void give_up(const std::string& folder, int error) {
  throw std::runtime_error("no temporary file can be made in '" + folder + "': " +
                           std::strerror(error) + "; set TMPDIR to a folder that can be written");
}

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  // A child in another folder is given the path, too.
  return std::filesystem::absolute(folder != nullptr && *folder != '\0' ? folder : "/tmp");
}

// A name as mkdtemp(3) and mkostemp(3) fill it in.
std::string name_template() {
  return temporary_folder() + "/memomalloc-XXXXXX";
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = name_template();
  if (mkdtemp(name.data()) == nullptr) {
    give_up(temporary_folder(), errno);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  const int reason = errno;  // of what failed while the folder was there
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  errno = reason;
}

TemporaryFile::TemporaryFile() {
  std::string name = name_template();
  descriptor_ = mkostemp(name.data(), O_CLOEXEC | O_APPEND);
  if (descriptor_ < 0) {
    give_up(temporary_folder(), errno);
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
    give_up(temporary_folder(), errno);
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
