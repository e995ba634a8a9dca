// Reads and writes whole files. Cold.
#include "src/cli/base/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>

#include "src/io/replace_file.h"

namespace memo::cli {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

bool same_file(const std::string& left, const std::string& right) {
  std::error_code ignored;
  return left == right || std::filesystem::equivalent(left, right, ignored);
}

}  // namespace

std::optional<std::string> read_text(const std::string& path, std::string& error) {
  const File opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"));
  std::FILE* file = path == "-" ? stdin : opened.get();
  if (file == nullptr) {
    error = path + ":0: cannot be opened: " + std::strerror(errno);
    return std::nullopt;
  }
  std::string text;
  std::string block(1 << 16, '\0');
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), file)) {
    text.append(block, 0, count);
  }
  if (std::ferror(file) != 0) {  // such as a folder
    error = path + ":0: cannot be read: " + std::strerror(errno);
    return std::nullopt;
  }
  return text;
}

std::string unwritable(const std::string& path) {
  struct stat status{};
  if (path.empty()) {
    return "'': an output needs a name";
  }
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    return path + ": is a folder; name a file in it";
  }
  if (exists && access(path.c_str(), W_OK) != 0) {
    return path + ": cannot be written: " + std::strerror(errno) + "; name another file";
  }
  std::string folder = std::filesystem::path(path).parent_path();
  folder = folder.empty() ? "." : folder;
  if (path == "-" || (exists && is_no_file(path.c_str())) ||
      access(folder.c_str(), W_OK | X_OK) == 0) {
    return "";
  }
  return path + ": cannot be made: " + std::strerror(errno) +
         (errno == ENOENT ? "; make the folder first: mkdir -p " + folder
                          : std::string("; name a file in another folder"));
}

std::string unwritable(const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
  std::vector<std::string> taken;  // "-" may be read and written
  std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(taken),
               [](const std::string& path) { return path != "-"; });
  for (const std::string& path : outputs) {
    if (path.empty()) {
      continue;
    }
    if (std::string reason = unwritable(path); !reason.empty()) {
      return reason;
    }
    if (std::any_of(taken.begin(), taken.end(),
                    [&](const std::string& other) { return same_file(path, other); })) {
      return path + ": is named twice, and would be overwritten; name another file";
    }
    taken.push_back(path);
  }
  return "";
}

bool write_text(const std::string& path, const std::string& text, std::string& error) {
  if (path == "-") {
    const bool whole =
        std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    error = whole ? "" : std::string("stdout cannot be written: ") + std::strerror(errno);
    return whole;
  }
  if (error = unwritable(path); !error.empty()) {
    return false;
  }
  const auto write = [&](int file) { return write_all(file, text.data(), text.size()); };
  if (!replace_file(path.c_str(), write)) {
    error = path + ": cannot be written: " + std::strerror(errno) + "; name another file";
    return false;
  }
  return true;
}

}  // namespace memo::cli
