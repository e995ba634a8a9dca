// Writes Python's pickle format, protocol 2, for dictionaries, lists, text and whole numbers. Cold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace memo::cli {

class Pickle {
 public:
  Pickle() : bytes_("\x80\x02") {}

  // Between a begin and its end come the items, or key and value by turns.
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void begin_dictionary() { bytes_ += "}("; }
  void end_dictionary() { bytes_ += 'u'; }

  void text(std::string_view value) {
    bytes_ += 'X';
    little_endian(value.size(), 4);
    bytes_ += value;
  }
  void number(std::uint64_t value) {
    bytes_ += "\x8a\x09";  // LONG1, nine bytes: the last one keeps it positive
    little_endian(value, 8);
    bytes_ += '\0';
  }
  void entry(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  void entry(std::string_view key, std::uint64_t value) {
    text(key);
    number(value);
  }

  std::string finish() { return std::move(bytes_) + '.'; }

 private:
  void little_endian(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes_ += static_cast<char>(value >> (8 * i) & 0xFFU);
    }
  }

  std::string bytes_;
};

}  // namespace memo::cli
