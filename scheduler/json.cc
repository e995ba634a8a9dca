// Graphs from JSON and orders to JSON. Line numbers of errors are found by looking for the name in
// the text: the parser keeps no positions, and errors are rare.
#include "schedule/json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "scheduler/check_graph.h"

namespace schedule {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;  // of nesting; a graph has 5, and comparing or printing recurs

// Thrown inside this file only; read_graph turns it into a GraphError.
struct Fault {
  std::string reason;
  std::string name;            // whose line is meant
  std::size_t occurrence = 0;  // which `"name": "..."` of it in the list
  bool node = false;           // the list of nodes is meant, else that of tensors
};

// Whether more than kDeepest lists and objects are open at once. Asked of the text, which may not
// be JSON: the parser's own callback takes ten times as long as the parser.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size() && depth <= kDeepest; ++i) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
    } else {
      quoted = c == '"';
      depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    }
  }
  return depth > kDeepest;
}

// The line of the n-th `"name": "<name>"` from the list's key on; 1 if there is none.
std::size_t line_of(std::string_view text, const Fault& fault) {
  const std::string quoted = json(fault.name).dump();
  const std::size_t list = text.find(fault.node ? "\"nodes\"" : "\"tensors\"");
  std::size_t occurrence = fault.occurrence;
  for (std::size_t at = list == std::string_view::npos ? 0 : list;
       (at = text.find(quoted, at)) != std::string_view::npos; ++at) {
    const std::size_t colon = text.find_last_not_of(" \t\r\n", at - 1);
    const std::size_t key = text.rfind("\"name\"", at);
    const bool named = at > 0 && colon != std::string_view::npos && text[colon] == ':' &&
                       key != std::string_view::npos &&
                       text.find_first_not_of(" \t\r\n", key + 6) == colon;
    if (named && occurrence-- == 0) {
      return 1 + static_cast<std::size_t>(std::count(
                     text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    }
  }
  return 1;
}

Bytes read_bytes(const json& value, const std::string& what, const std::string& name, bool node) {
  const bool whole = value.is_number_integer() &&
                     (!value.is_number_unsigned() ||
                      value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max());
  if (!whole || value.get<Bytes>() < 0) {
    throw Fault{what + " must be a whole number of bytes, 0 or more, not " + value.dump(), name, 0,
                node};
  }
  return value.get<Bytes>();
}

std::string read_name(const json& object, const char* what) {
  if (!object.is_object() || !object.contains("name") || !object["name"].is_string()) {
    throw Fault{std::string("each ") + what + " needs a \"name\" (a string)", {}};
  }
  return object["name"].get<std::string>();
}

// `node` is empty for a list of the graph itself.
const json& list_in(const json& object, const char* key, const std::string& node = {}) {
  static const json kEmpty = json::array();
  if (!object.contains(key)) {
    return kEmpty;
  }
  if (!object[key].is_array()) {
    throw Fault{(node.empty() ? "" : "node '" + node + "': ") + "\"" + key + "\" must be a list",
                node, 0, true};
  }
  return object[key];
}

bool has(const json& object, const char* key, const json& value) {
  return object.contains(key) && object[key] == value;
}

// The library's message without its own code in brackets.
std::string words_of(const json::parse_error& fault) {
  const std::string_view text = fault.what();
  const std::size_t code = text.find("] ");
  return std::string(code == std::string_view::npos ? text : text.substr(code + 2));
}

class Reader {
 public:
  Graph read(const json& root) {
    if (!root.is_object() || !has(root, "format", "memomalloc-graph") || !has(root, "version", 1)) {
      throw Fault{"not a graph: expected {\"format\": \"memomalloc-graph\", \"version\": 1, ...}",
                  {}};
    }
    graph_.name =
        root.contains("name") && root["name"].is_string() ? root["name"].get<std::string>() : "";
    read_tensors(list_in(root, "tensors"));
    read_nodes(list_in(root, "nodes"));
    for (const json& output : list_in(root, "outputs")) {
      graph_.tensors[static_cast<std::size_t>(tensor(output, "\"outputs\"", {}))].output = true;
    }
    return std::move(graph_);
  }

 private:
  void read_tensors(const json& list) {
    for (const json& object : list) {
      Tensor tensor;
      tensor.name = read_name(object, "tensor");
      if (!tensors_.emplace(tensor.name, static_cast<TensorId>(graph_.tensors.size())).second) {
        throw Fault{"two tensors are called '" + tensor.name + "'; names must be unique",
                    tensor.name, 1};
      }
      tensor.kind = kind(object, tensor.name);
      if (!object.contains("bytes") && !object.contains("alias_of")) {
        missing_size_ = missing_size_.empty() ? tensor.name : missing_size_;
      }
      tensor.bytes = object.contains("alias_of") || !object.contains("bytes")
                         ? 0
                         : read_bytes(object["bytes"], "the size of tensor '" + tensor.name + "'",
                                      tensor.name, false);
      graph_.tensors.push_back(std::move(tensor));
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      Tensor& mine = graph_.tensors[i];
      if (list[i].contains("alias_of")) {
        mine.alias_of =
            tensor(list[i]["alias_of"], "tensor '" + mine.name + "' (alias_of)", mine.name);
      }
    }
  }

  static TensorKind kind(const json& object, const std::string& name) {
    static const std::unordered_map<std::string, TensorKind> kKinds{
        {"activation", TensorKind::kActivation},
        {"gradient", TensorKind::kGradient},
        {"weight", TensorKind::kWeight},
        {"input", TensorKind::kInput}};
    const json value = object.value("kind", json("activation"));
    const auto found = value.is_string() ? kKinds.find(value.get<std::string>()) : kKinds.end();
    if (found == kKinds.end()) {
      throw Fault{"tensor '" + name + "' has the kind " + value.dump() +
                      "; expected activation, gradient, weight or input",
                  name};
    }
    return found->second;
  }

  void read_nodes(const json& list) {
    for (const json& object : list) {
      const std::string name = read_name(object, "node");
      if (!nodes_.emplace(name, static_cast<NodeId>(nodes_.size())).second) {
        throw Fault{"two nodes are called '" + name + "'; names must be unique", name, 1, true};
      }
    }
    for (const json& object : list) {
      Node node;
      node.name = object["name"].get<std::string>();
      const std::string me = "node '" + node.name + "'";
      node.op =
          object.contains("op") && object["op"].is_string() ? object["op"].get<std::string>() : "";
      for (const json& input : list_in(object, "inputs", node.name)) {
        node.inputs.push_back(tensor(input, me, node.name));
      }
      for (const json& output : list_in(object, "outputs", node.name)) {
        node.outputs.push_back(tensor(output, me, node.name));
      }
      for (const json& pair : list_in(object, "overwrites", node.name)) {
        if (!pair.is_array() || pair.size() != 2) {
          throw Fault{me + ": \"overwrites\" holds pairs [output, input]", node.name, 0, true};
        }
        node.overwrites.push_back({tensor(pair[0], me, node.name), tensor(pair[1], me, node.name)});
      }
      for (const json& before : list_in(object, "after", node.name)) {
        const auto found =
            before.is_string() ? nodes_.find(before.get<std::string>()) : nodes_.end();
        if (found == nodes_.end()) {
          throw Fault{me + " must run after " + before.dump() + ", but there is no such node",
                      node.name, 0, true};
        }
        node.after.push_back(found->second);
      }
      if (object.contains("workspace")) {
        node.workspace = read_bytes(object["workspace"], "the workspace of " + me, node.name, true);
      }
      graph_.nodes.push_back(std::move(node));
    }
    if (!missing_size_.empty()) {
      throw Fault{"tensor '" + missing_size_ + "'" + maker_of(missing_size_) +
                      " has no size; give \"bytes\" or \"alias_of\"",
                  missing_size_};
    }
  }

  std::string maker_of(const std::string& tensor_name) const {
    for (const Node& node : graph_.nodes) {
      if (std::ranges::count(node.outputs, tensors_.at(tensor_name)) > 0) {
        return ", made by node '" + node.name + "',";
      }
    }
    return {};
  }

  TensorId tensor(const json& value, const std::string& user, const std::string& name) const {
    const auto found = value.is_string() ? tensors_.find(value.get<std::string>()) : tensors_.end();
    if (found == tensors_.end()) {
      throw Fault{
          user + " refers to the tensor " + value.dump() + ", which \"tensors\" does not list",
          name, 0, graph_.tensors.size() == tensors_.size() && !nodes_.empty()};
    }
    return found->second;
  }

  Graph graph_;
  std::unordered_map<std::string, TensorId> tensors_;
  std::unordered_map<std::string, NodeId> nodes_;
  std::string missing_size_;
};

}  // namespace

std::optional<Graph> read_graph(std::string_view text, GraphError& error) {
  try {
    if (too_deep(text)) {
      throw Fault{"not a graph: lists or objects are nested too deeply", {}};
    }
    Graph graph = Reader().read(json::parse(text));
    const Unsound unsound = check_graph(graph);
    if (!unsound.reason.empty()) {
      throw Fault{unsound.reason, unsound.name, 0, unsound.node};
    }
    return graph;
  } catch (const json::parse_error& fault) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(fault.byte, text.size()));
    error = {1 + static_cast<std::size_t>(std::count(text.begin(), end, '\n')),
             "this is not JSON: " + words_of(fault)};
  } catch (const Fault& fault) {
    error = {fault.name.empty() ? 1 : line_of(text, fault), fault.reason};
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
    root["order"].push_back(graph.nodes[static_cast<std::size_t>(n)].name);
  }
  if (plan != nullptr) {
    root["height"] = plan->height;
    const Placement placed = placement(graph, outcome.order, coalesce);
    root["offsets"] = nlohmann::ordered_json::object();
    // Names are unique: to look for each among the others would take quadratic time.
    auto& offsets = root["offsets"].get_ref<nlohmann::ordered_json::object_t&>();
    for (std::size_t i = 0; i < placed.owners.size(); ++i) {
      for (const TensorId t : placed.owners[i]) {
        offsets.emplace_back(graph.tensors[static_cast<std::size_t>(t)].name, plan->offsets[i]);
      }
    }
  }
  return root.dump(1) + "\n";
}

}  // namespace schedule
