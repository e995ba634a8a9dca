// Reads the numbers of unwind tables in their encodings, within bounds. Hot.
#pragma once

#include <cstdint>
#include <cstring>

namespace memo {

// After a read outside the bounds every further one answers 0, and good() is false.
class TableReader {
 public:
  TableReader(std::uint64_t at, std::uint64_t end) : at_(at), end_(end) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool more() const { return good_ && at_ < end_; }
  [[nodiscard]] std::uint64_t at() const { return at_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }

  void skip(std::uint64_t bytes) {
    if (take(bytes)) {
      at_ += bytes;
    }
  }
  // Ends earlier from now on: after `bytes` more.
  void limit(std::uint64_t bytes) {
    if (take(bytes)) {
      end_ = at_ + bytes;
    }
  }
  template <typename Number>
  Number number() {
    Number value{};
    if (take(sizeof value)) {
      std::memcpy(&value, reinterpret_cast<const void*>(at_), sizeof value);
      at_ += sizeof value;
    }
    return value;
  }
  std::uint8_t byte() { return number<std::uint8_t>(); }

  // Seven bits a byte, the least first.
  std::uint64_t uleb() {
    std::uint64_t value = 0;
    std::uint8_t part = 0x80;
    for (unsigned shift = 0; (part & 0x80) != 0 && shift < 64; shift += 7) {
      part = byte();
      value |= static_cast<std::uint64_t>(part & 0x7F) << shift;
    }
    return value;
  }
  std::int64_t sleb() {
    std::uint64_t value = 0;
    std::uint8_t part = 0x80;
    unsigned shift = 0;
    while ((part & 0x80) != 0 && shift < 64) {
      part = byte();
      value |= static_cast<std::uint64_t>(part & 0x7F) << shift;
      shift += 7;
    }
    if ((part & 0x40) != 0 && shift < 64) {
      value |= ~0ULL << shift;
    }
    return static_cast<std::int64_t>(value);
  }

  // A pointer as `encoding` (DW_EH_PE_*) says; `data` is what offsets from the index' start count
  // from. 0 where it is left out or nobody writes it so.
  std::uint64_t pointer(std::uint8_t encoding, std::uint64_t data) {
    constexpr std::uint8_t kOmitted = 0xFF;
    constexpr std::uint8_t kFromHere = 0x10;
    constexpr std::uint8_t kFromData = 0x30;
    if (encoding == kOmitted) {
      return 0;
    }
    const std::uint64_t here = at_;
    const std::uint64_t value = plain(encoding & 0x0F);
    switch (encoding & 0xF0) {
      case 0:
        return value;
      case kFromHere:
        return here + value;
      case kFromData:
        return data + value;
      default:
        good_ = false;
        return 0;
    }
  }

 private:
  bool take(std::uint64_t bytes) {
    good_ = good_ && at_ <= end_ && bytes <= end_ - at_;
    return good_;
  }
  std::uint64_t plain(unsigned format) {
    switch (format) {
      case 0x0:  // an address of the machine
      case 0x4:
      case 0xC:
        return number<std::uint64_t>();
      case 0x1:
        return uleb();
      case 0x2:
        return number<std::uint16_t>();
      case 0x3:
        return number<std::uint32_t>();
      case 0x9:
        return static_cast<std::uint64_t>(sleb());
      case 0xA:
        return static_cast<std::uint64_t>(std::int64_t{number<std::int16_t>()});
      case 0xB:
        return static_cast<std::uint64_t>(std::int64_t{number<std::int32_t>()});
      default:
        good_ = false;
        return 0;
    }
  }

  std::uint64_t at_;
  std::uint64_t end_;
  bool good_ = true;
};

}  // namespace memo
