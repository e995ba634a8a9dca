// Listens to the JSON parser. It keeps no positions, so the text's iterator tells how far it has
// read. While the parser reports a string, the iterator stands at the string's end.
#include "scheduler/draft.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

namespace schedule {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;  // of nesting; a graph has 5

// A place in the text that leaves a note of itself.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** note = nullptr;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *note = ++at;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
};

// The library's message without its own code in brackets.
std::string words_of(const json::exception& fault) {
  const std::string_view text = fault.what();
  const std::size_t code = text.find("] ");
  return std::string(code == std::string_view::npos ? text : text.substr(code + 2));
}

// The parser's events; the names are the library's. Levels count the open lists and objects:
//
//   1      2         3                 4
//   {"nodes": [ {"name": "n", "inputs": ["a"], "overwrites": [ ["b", "a"] ]} ]}
//                                                             4 5
class Listener {
 public:
  Listener(std::string_view text, Draft& draft, GraphError& error)
      : text_(text), counted_(text.data()), read_(text.data()), draft_(draft), error_(error) {}

  bool run() {
    const char* const begin = text_.data();
    return json::sax_parse(Cursor{begin, &read_}, Cursor{begin + text_.size(), &read_}, this);
  }

  bool null() { return take({Value::Kind::kOther, "null"}); }
  bool boolean(bool value) { return take({Value::Kind::kOther, value ? "true" : "false"}); }
  bool number_integer(std::int64_t value) {
    return take({Value::Kind::kWhole, std::to_string(value), value});
  }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<Bytes>::max())) {
      return take({Value::Kind::kOther, std::to_string(value)});
    }
    return number_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(double, const std::string& text) { return take({Value::Kind::kOther, text}); }
  bool string(std::string& value) { return take({Value::Kind::kString, std::move(value)}); }
  bool binary(const json::binary_t&) { return false; }  // text has none
  bool start_object(std::size_t) { return open(false); }
  bool start_array(std::size_t) { return open(true); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(const std::string& key) {
    target_ = {};
    if (level_ == kGraph) {
      target_ = target_in_graph(key);
    } else if (level_ == kRow && section_ == Section::kTensors) {
      target_ = target_in(draft_.tensors.back(), key);
    } else if (level_ == kRow && section_ == Section::kNodes) {
      target_ = target_in(draft_.nodes.back(), key);
    }
    target_.level = level_;
    key_ = key;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& fault) {
    read_ = text_.data() + std::min(position, text_.size());
    error_ = {line(), "this is not JSON: " + words_of(fault)};
    return false;
  }

 private:
  enum class Section : std::uint8_t { kNone, kTensors, kNodes };
  static constexpr int kGraph = 1;
  static constexpr int kRow = 3;

  // Where the value of the last key goes: one of these, or nowhere.
  struct Target {
    Value* value = nullptr;
    Values* list = nullptr;
    std::vector<Values>* pairs = nullptr;
    std::string* no_list = nullptr;
    std::size_t* line = nullptr;  // set where the value or the list stands
    int level = 0;                // of the key
  };

  Target target_in_graph(const std::string& key) {
    section_ = key == "tensors" ? Section::kTensors
               : key == "nodes" ? Section::kNodes
                                : Section::kNone;
    if (section_ == Section::kTensors) {
      draft_.tensors.clear();
    } else if (section_ == Section::kNodes) {
      draft_.nodes.clear();
    }
    if (section_ != Section::kNone) {
      return {.no_list = &draft_.no_list};
    }
    if (key == "outputs") {
      return {.list = &draft_.outputs, .no_list = &draft_.no_list, .line = &draft_.outputs_line};
    }
    return {.value = key == "format"    ? &draft_.format
                     : key == "version" ? &draft_.version
                     : key == "name"    ? &draft_.name
                                        : nullptr};
  }

  static Target target_in(DraftTensor& tensor, const std::string& key) {
    if (key == "name") {
      return {.value = &tensor.name, .line = &tensor.line};
    }
    return {.value = key == "kind"       ? &tensor.kind
                     : key == "bytes"    ? &tensor.bytes
                     : key == "alias_of" ? &tensor.alias_of
                                         : nullptr};
  }

  static Target target_in(DraftNode& node, const std::string& key) {
    if (key == "name") {
      return {.value = &node.name, .line = &node.line};
    }
    if (key == "op" || key == "workspace") {
      return {.value = key == "op" ? &node.op : &node.workspace};
    }
    if (key == "overwrites") {
      return {.pairs = &node.overwrites, .no_list = &node.no_list};
    }
    Values* const list = key == "inputs"    ? &node.inputs
                         : key == "outputs" ? &node.outputs
                         : key == "after"   ? &node.after
                                            : nullptr;
    return {.list = list, .no_list = list != nullptr ? &node.no_list : nullptr};
  }

  // A value that is no list and no object; of those, their place in what is around them.
  bool take(Value value) {
    const int depth = level_ - target_.level;
    if (section_ != Section::kNone && level_ == kRow - 1) {
      add_row();
    } else if (depth == 0 && target_.value != nullptr) {
      *target_.value = std::move(value);
      mark_line();
    } else if (depth == 0 && target_.no_list != nullptr) {
      *target_.no_list = key_;
    } else if (depth == 1 && target_.list != nullptr) {
      target_.list->push_back(std::move(value));
    } else if (depth == 1 && target_.pairs != nullptr) {
      target_.pairs->emplace_back();  // no pair
    } else if (depth == 2 && target_.pairs != nullptr) {
      target_.pairs->back().push_back(std::move(value));
    }
    return true;
  }

  bool open(bool list) {
    if (level_ == target_.level && list && target_.no_list != nullptr) {
      begin_list();
    } else {
      take({Value::Kind::kOther, list ? "a list" : "an object"});
    }
    if (++level_ <= kDeepest) {
      return true;
    }
    error_ = {1, "not a graph: lists or objects are nested too deeply"};
    return false;
  }

  bool close() {
    --level_;
    return true;
  }

  void begin_list() {
    if (target_.list != nullptr) {
      target_.list->clear();
    }
    if (target_.pairs != nullptr) {
      target_.pairs->clear();
    }
    mark_line();
  }

  // One that is no object stays without a name.
  void add_row() {
    if (section_ == Section::kTensors) {
      draft_.tensors.emplace_back().line = line();
    } else {
      draft_.nodes.emplace_back().line = line();
    }
    target_ = {};
  }

  void mark_line() {
    if (target_.line != nullptr) {
      *target_.line = line();
    }
  }

  // Of what the parser has read last.
  std::size_t line() {
    line_ += static_cast<std::size_t>(std::count(counted_, read_, '\n'));
    counted_ = read_;
    return line_;
  }

  std::string_view text_;
  const char* counted_;  // up to here, line_ has been counted
  const char* read_;
  std::size_t line_ = 1;
  int level_ = 0;
  Section section_ = Section::kNone;  // the graph's list that is open
  std::string key_;
  Target target_;
  Draft& draft_;
  GraphError& error_;
};

}  // namespace

std::string Value::shown() const {
  return is_string() ? json(text).dump() : text;
}

bool read_draft(std::string_view text, Draft& draft, GraphError& error) {
  return Listener(text, draft, error).run();
}

}  // namespace schedule
