// See tar.h. Cold.
#include "src/cli/plan/tar.h"

#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>

namespace memo::cli {
namespace {

constexpr std::size_t kBlock = 512;

// Numbers are octal digits, texts end with a zero where there is room.
struct Header {
  char name[100];
  char mode[8];
  char user[8];
  char group[8];
  char size[12];
  char written[12];
  char sum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char rest[247];
};
static_assert(sizeof(Header) == kBlock);

// Of all bytes, with the sum's own field taken for blanks.
std::uint64_t sum_of(Header header) {
  std::memset(header.sum, ' ', sizeof header.sum);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  return std::accumulate(bytes, bytes + sizeof header, std::uint64_t{0});
}

template <std::size_t room>
void write_octal(char (&field)[room], std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llo", static_cast<int>(room) - 1,
                static_cast<unsigned long long>(value));
  std::memcpy(field, text, room);
}

template <std::size_t room>
std::optional<std::uint64_t> read_octal(const char (&field)[room]) {
  std::uint64_t value = 0;
  bool any = false;
  for (const char c : field) {
    if (c >= '0' && c <= '7') {
      value = value * 8 + static_cast<std::uint64_t>(c - '0');
      any = true;
    } else if (c == '\0' || (c == ' ' && any)) {
      break;
    } else if (c != ' ') {
      return std::nullopt;
    }
  }
  return value;
}

std::size_t padding(std::size_t size) {
  return (kBlock - size % kBlock) % kBlock;
}

}  // namespace

std::string write_tar(const std::vector<TarFile>& files) {
  std::string archive;
  for (const TarFile& file : files) {
    Header header{};
    std::memcpy(header.name, file.name.data(), std::min(file.name.size(), sizeof header.name - 1));
    write_octal(header.mode, 0644);
    write_octal(header.user, 0);
    write_octal(header.group, 0);
    write_octal(header.size, file.bytes.size());
    write_octal(header.written, file.written);
    header.type = '0';
    std::memcpy(header.magic, "ustar", sizeof header.magic);
    std::memcpy(header.version, "00", sizeof header.version);
    write_octal(header.sum, sum_of(header));
    archive.append(reinterpret_cast<const char*>(&header), sizeof header);
    archive += file.bytes;
    archive.append(padding(file.bytes.size()), '\0');
  }
  return archive.append(2 * kBlock, '\0');
}

std::optional<std::vector<TarFile>> read_tar(const std::string& archive) {
  std::vector<TarFile> files;
  for (std::size_t at = 0; at + kBlock <= archive.size();) {
    Header header;
    std::memcpy(&header, archive.data() + at, sizeof header);
    at += kBlock;
    if (header.name[0] == '\0') {
      return files;
    }
    const auto size = read_octal(header.size);
    const auto written = read_octal(header.written);
    if (std::string_view(header.magic, 5) != "ustar" || read_octal(header.sum) != sum_of(header) ||
        !size || !written || *size > archive.size() - at) {
      return std::nullopt;
    }
    if (header.type == '0' || header.type == '\0') {
      const std::string name(header.name, strnlen(header.name, sizeof header.name));
      files.push_back({name.substr(name.rfind('/') + 1), *written, archive.substr(at, *size)});
    }
    at += *size + padding(*size);
  }
  return std::nullopt;
}

}  // namespace memo::cli
