// Reads Python's pickle format, protocols 2 to 5, as far as plain data needs it: dictionaries,
// lists, tuples, text, whole and other numbers, None, True and False. Nothing is ever built by name
// or called: whatever asks for that is refused. Values stand in one array and name each other by
// index, so that neither nesting nor shared parts cost a stack. Cold; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memo::cli {

class Pickled {
 public:
  using Index = std::uint32_t;
  enum class Kind : std::uint8_t {
    kNone,
    kFalse,
    kTrue,
    kNumber,
    kNegative,
    kReal,
    kText,
    kList,
    kTuple,
    kDictionary
  };

  // The value of a pickle that ends with its last byte; none, with `error` set to "byte N: reason".
  // `bytes` must outlive the result, which points into them.
  static std::optional<Pickled> read(std::string_view bytes, std::string& error);

  [[nodiscard]] Index root() const { return root_; }
  [[nodiscard]] Kind kind(Index value) const { return values_[value].kind; }
  // Where the value was made: bytes from the file's start.
  [[nodiscard]] std::size_t byte(Index value) const { return values_[value].byte; }
  // kNumber: 0 to 2^64 - 1.
  [[nodiscard]] std::uint64_t number(Index value) const { return values_[value].data; }
  // kText: bytes as in the file, which need not be UTF-8.
  [[nodiscard]] std::string_view text(Index value) const {
    return bytes_.substr(values_[value].data, values_[value].length);
  }
  // kList, kTuple: the items; kDictionary: key and value by turns.
  [[nodiscard]] const std::vector<Index>& items(Index value) const {
    return containers_[values_[value].data];
  }
  [[nodiscard]] bool holds(Index value) const {  // items
    return kind(value) >= Kind::kList;
  }
  [[nodiscard]] std::size_t count() const { return values_.size(); }
  // The value of a dictionary's last entry of this name; none if there is none, or no dictionary.
  [[nodiscard]] std::optional<Index> find(Index dictionary, std::string_view name) const;
  // A container that holds itself, directly or by others; none in what `read` gives.
  [[nodiscard]] std::optional<Index> circle() const;

 private:
  friend class PickleReader;

  struct Value {
    std::uint64_t data = 0;    // the number, the text's first byte, or an index into containers_
    std::uint32_t length = 0;  // of a text
    std::uint32_t byte = 0;
    Kind kind = Kind::kNone;
  };

  std::string_view bytes_;
  std::vector<Value> values_;
  std::vector<std::vector<Index>> containers_;
  Index root_ = 0;
};

}  // namespace memo::cli
