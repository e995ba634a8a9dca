// Graphs from JSON and orders to JSON: what draft.cc has read gets its meaning here, and each fault
// its line.
#include "schedule/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "scheduler/check_graph.h"
#include "scheduler/draft.h"
#include "scheduler/index.h"

namespace schedule {
namespace {

using nlohmann::json;

// Thrown inside this file only; read_graph turns it into a GraphError.
struct Fault {
  std::string reason;
  std::size_t line = 1;
};

Bytes bytes_of(const Value& value, const std::string& what, std::size_t line) {
  if (value.kind != Value::Kind::kWhole || value.number < 0) {
    throw Fault{what + " must be a whole number of bytes, 0 or more, not " + value.shown(), line};
  }
  return value.number;
}

template <typename Row>
void check_name(const Row& row, const char* what) {
  if (!row.name.is_string()) {
    throw Fault{std::string("each ") + what + " needs a \"name\" (a string)", row.line};
  }
}

TensorKind kind_of(const DraftTensor& row) {
  static const std::unordered_map<std::string, TensorKind> kKinds{
      {"activation", TensorKind::kActivation},
      {"gradient", TensorKind::kGradient},
      {"weight", TensorKind::kWeight},
      {"input", TensorKind::kInput}};
  if (!row.kind.there()) {
    return TensorKind::kActivation;
  }
  const auto found = row.kind.is_string() ? kKinds.find(row.kind.text) : kKinds.end();
  if (found == kKinds.end()) {
    throw Fault{"tensor '" + row.name.text + "' has the kind " + row.kind.shown() +
                    "; expected activation, gradient, weight or input",
                row.line};
  }
  return found->second;
}

class Reader {
 public:
  explicit Reader(const Draft& draft) : draft_(draft) {}

  Graph read() {
    if (draft_.format.text != "memomalloc-graph" || draft_.version.number != 1) {
      throw Fault{"not a graph: expected {\"format\": \"memomalloc-graph\", \"version\": 1, ...}"};
    }
    if (!draft_.no_list.empty()) {
      throw Fault{"\"" + draft_.no_list + "\" must be a list"};
    }
    graph_.name = draft_.name.is_string() ? draft_.name.text : "";
    read_tensors();
    name_nodes();
    for (const DraftNode& row : draft_.nodes) {
      read_node(row);
    }
    check_sizes();
    for (const Value& output : draft_.outputs) {
      const TensorId id = tensor(output, "\"outputs\"", draft_.outputs_line);
      graph_.tensors[at(id)].output = true;
    }
    check_sense();
    return std::move(graph_);
  }

 private:
  void read_tensors() {
    for (const DraftTensor& row : draft_.tensors) {
      check_name(row, "tensor");
      const std::string& name = row.name.text;
      if (!tensors_.emplace(name, static_cast<TensorId>(graph_.tensors.size())).second) {
        throw Fault{"two tensors are called '" + name + "'; names must be unique", row.line};
      }
      Tensor tensor;
      tensor.name = name;
      tensor.kind = kind_of(row);
      if (row.bytes.there() && !row.alias_of.there()) {
        tensor.bytes = bytes_of(row.bytes, "the size of tensor '" + name + "'", row.line);
      }
      graph_.tensors.push_back(std::move(tensor));
    }
    for (std::size_t i = 0; i < draft_.tensors.size(); ++i) {
      const DraftTensor& row = draft_.tensors[i];
      if (row.alias_of.there()) {
        graph_.tensors[i].alias_of =
            tensor(row.alias_of, "tensor '" + row.name.text + "' (alias_of)", row.line);
      }
    }
  }

  void name_nodes() {
    for (const DraftNode& row : draft_.nodes) {
      check_name(row, "node");
      if (!nodes_.emplace(row.name.text, static_cast<NodeId>(nodes_.size())).second) {
        throw Fault{"two nodes are called '" + row.name.text + "'; names must be unique", row.line};
      }
    }
  }

  void read_node(const DraftNode& row) {
    const std::string me = "node '" + row.name.text + "'";
    if (!row.no_list.empty()) {
      throw Fault{me + ": \"" + row.no_list + "\" must be a list", row.line};
    }
    Node node;
    node.name = row.name.text;
    node.op = row.op.is_string() ? row.op.text : "";
    for (const Value& input : row.inputs) {
      node.inputs.push_back(tensor(input, me, row.line));
    }
    for (const Value& output : row.outputs) {
      node.outputs.push_back(tensor(output, me, row.line));
    }
    for (const Values& pair : row.overwrites) {
      if (pair.size() != 2) {
        throw Fault{me + ": \"overwrites\" holds pairs [output, input]", row.line};
      }
      node.overwrites.push_back({tensor(pair[0], me, row.line), tensor(pair[1], me, row.line)});
    }
    for (const Value& before : row.after) {
      const auto found = before.is_string() ? nodes_.find(before.text) : nodes_.end();
      if (found == nodes_.end()) {
        throw Fault{me + " must run after " + before.shown() + ", but there is no such node",
                    row.line};
      }
      node.after.push_back(found->second);
    }
    if (row.workspace.there()) {
      node.workspace = bytes_of(row.workspace, "the workspace of " + me, row.line);
    }
    graph_.nodes.push_back(std::move(node));
  }

  // Last of all, so that the message can name the maker.
  void check_sizes() const {
    for (std::size_t i = 0; i < draft_.tensors.size(); ++i) {
      const DraftTensor& row = draft_.tensors[i];
      if (!row.bytes.there() && !row.alias_of.there()) {
        throw Fault{"tensor '" + row.name.text + "'" + maker_of(static_cast<TensorId>(i)) +
                        " has no size; give \"bytes\" or \"alias_of\"",
                    row.line};
      }
    }
  }

  std::string maker_of(TensorId tensor) const {
    for (const Node& node : graph_.nodes) {
      if (std::ranges::count(node.outputs, tensor) > 0) {
        return ", made by node '" + node.name + "',";
      }
    }
    return {};
  }

  void check_sense() const {
    const Unsound unsound = check_graph(graph_);
    if (unsound.reason.empty()) {
      return;
    }
    const auto line = [&](const auto& ids, const auto& rows) {
      const auto found = ids.find(unsound.name);
      return found == ids.end() ? 1 : rows[at(found->second)].line;
    };
    throw Fault{unsound.reason,
                unsound.node ? line(nodes_, draft_.nodes) : line(tensors_, draft_.tensors)};
  }

  TensorId tensor(const Value& value, const std::string& user, std::size_t line) const {
    const auto found = value.is_string() ? tensors_.find(value.text) : tensors_.end();
    if (found == tensors_.end()) {
      throw Fault{
          user + " refers to the tensor " + value.shown() + ", which \"tensors\" does not list",
          line};
    }
    return found->second;
  }

  const Draft& draft_;
  Graph graph_;
  std::unordered_map<std::string, TensorId> tensors_;
  std::unordered_map<std::string, NodeId> nodes_;
};

}  // namespace

std::optional<Graph> read_graph(std::string_view text, GraphError& error) {
  Draft draft;
  if (!read_draft(text, draft, error)) {
    return std::nullopt;
  }
  try {
    return Reader(draft).read();
  } catch (const Fault& fault) {
    error = {fault.line, fault.reason};
  }
  return std::nullopt;
}

std::string write_order(const Graph& graph, const Outcome& outcome, bool coalesce,
                        const dsa::Plan* plan) {
  nlohmann::ordered_json root{{"format", "memomalloc-order"},
                              {"version", 1},
                              {"name", graph.name},
                              {"coalesce", coalesce},
                              {"framework_peak", outcome.framework_peak},
                              {"peak", outcome.peak},
                              {"lower_bound", outcome.lower_bound},
                              {"optimal", outcome.optimal},
                              {"order", json::array()}};
  for (const NodeId n : outcome.order) {
    root["order"].push_back(graph.nodes[at(n)].name);
  }
  if (plan != nullptr) {
    root["height"] = plan->height;
    const Placement placed = placement(graph, outcome.order, coalesce);
    root["offsets"] = nlohmann::ordered_json::object();
    // Names are unique: to look for each among the others would take quadratic time.
    auto& offsets = root["offsets"].get_ref<nlohmann::ordered_json::object_t&>();
    for (std::size_t i = 0; i < placed.owners.size(); ++i) {
      for (const TensorId t : placed.owners[i]) {
        offsets.emplace_back(graph.tensors[at(t)].name, plan->offsets[i]);
      }
    }
  }
  return root.dump(1) + "\n";
}

}  // namespace schedule
