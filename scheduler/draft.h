// A graph file as it stands in the text: names that nobody has looked up and values that nobody has
// judged, each tensor and node with its line. Cold. What they mean is json.cc's business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/graph.h"
#include "schedule/json.h"

namespace schedule {

struct Value {
  enum class Kind : std::uint8_t { kAbsent, kString, kWhole, kOther };
  Kind kind = Kind::kAbsent;
  std::string text;  // of a string its characters; else what a message may say of it
  Bytes number = 0;  // of a whole number

  bool there() const { return kind != Kind::kAbsent; }
  bool is_string() const { return kind == Kind::kString; }
  std::string shown() const;  // a string in quotes, as the file has it
};

using Values = std::vector<Value>;

struct DraftTensor {
  std::size_t line = 0;  // of its name; of its begin, if it has none
  Value name;
  Value kind;
  Value bytes;
  Value alias_of;
};

struct DraftNode {
  std::size_t line = 0;  // likewise
  Value name;
  Value op;
  Value workspace;
  Values inputs;
  Values outputs;
  Values after;
  std::vector<Values> overwrites;
  std::string no_list;  // a field that ought to be a list and is not
};

struct Draft {
  Value format;
  Value version;
  Value name;
  std::vector<DraftTensor> tensors;
  std::vector<DraftNode> nodes;
  Values outputs;
  std::size_t outputs_line = 1;
  std::string no_list;  // likewise
};

// Reads the text once. False with an error if it is not JSON, or nested too deeply. Of a key that
// stands twice in an object the last counts; a key that no graph has is passed over.
bool read_draft(std::string_view text, Draft& draft, GraphError& error);

}  // namespace schedule
