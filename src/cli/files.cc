// Reads and writes whole files. Cold.
#include "src/cli/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace memo::cli {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

std::optional<std::string> read_text(const std::string& path, std::string& error) {
  const File opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"));
  std::FILE* file = path == "-" ? stdin : opened.get();
  if (file == nullptr) {
    error = path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  std::string text;
  std::string block(1 << 16, '\0');
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), file)) {
    text.append(block, 0, count);
  }
  if (std::ferror(file) != 0) {  // such as a folder
    error = path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  return text;
}

bool write_text(const std::string& path, const std::string& text, std::string& error) {
  if (path == "-") {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  }
  // A device or a pipe has no neighbour to be renamed from.
  const std::string beside = path + "." + std::to_string(getpid()) + ".tmp";
  const bool regular = !path.starts_with("/dev/");
  const std::string& target = regular ? beside : path;
  std::FILE* file = std::fopen(target.c_str(), "wb");
  bool good = file != nullptr;
  good = good && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = file != nullptr && std::fclose(file) == 0 && good;
  good = good && (!regular || std::rename(beside.c_str(), path.c_str()) == 0);
  if (!good) {
    error = path + ": " + std::strerror(errno);
    if (regular) {
      std::remove(beside.c_str());
    }
  }
  return good;
}

}  // namespace memo::cli
