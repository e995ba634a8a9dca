#include "src/cli/status/open_metrics.h"

#include <string_view>

#include "src/cli/base/process_rows.h"

namespace memo::cli {
namespace {

using nlohmann::json;

// A label's value: nothing in it ends it.
std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char letter : value) {
    text += letter == '"' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
  }
  return text + "\"";
}

std::string labels(const json& process) {
  return "pid=\"" + std::to_string(number_in(process, "pid")) +
         "\",process=" + quoted(text_in(process, "process"));
}

// The head of a metric, whose name is without the library's. Only types that the older text format
// has, too: what reads that one refuses a whole file for a type of OpenMetrics alone.
std::string head(const std::string& name, const char* type, std::string_view help) {
  const std::string full = "memomalloc_" + name;
  std::string text = "# TYPE " + full + " " + type + "\n";
  if (name.ends_with("_bytes")) {
    text += "# UNIT " + full + " bytes\n";
  } else if (name.ends_with("_seconds")) {
    text += "# UNIT " + full + " seconds\n";
  }
  return text + "# HELP " + full + " " + std::string(help) + "\n";
}

// `value(process)` of each; empty: the process does not tell.
template <typename Value>
std::string gauge(const std::vector<json>& processes, const char* name, std::string_view help,
                  Value&& value) {
  std::string text = head(name, "gauge", help);
  for (const json& process : processes) {
    text += "memomalloc_" + std::string(name) + "{" + labels(process) + "} " +
            value(process).dump() + "\n";
  }
  return text;
}

std::string phases(const std::vector<json>& processes) {
  std::string text = head("phase", "gauge", "what the process' busiest thread does");
  for (const json& process : processes) {
    for (const char* phase : {"idle", "learning", "serving", "pooling"}) {
      text += "memomalloc_phase{" + labels(process) + ",memomalloc_phase=\"" + phase + "\"} " +
              (text_in(process, "phase") == phase ? "1\n" : "0\n");
    }
  }
  return text;
}

}  // namespace

std::string open_metrics(const std::vector<json>& processes) {
  std::vector<json> running;
  for (const json& process : processes) {
    if (!process.value("ended", false)) {
      running.push_back(process);
    }
  }
  std::string text = head("processes", "gauge", "processes that tell of themselves") +
                     "memomalloc_processes " + std::to_string(running.size()) + "\n" +
                     head("process_info", "gauge", "the version of the library in the process");
  for (const json& process : running) {
    text += "memomalloc_process_info{" + labels(process) +
            ",version=" + quoted(text_in(process, "version")) + "} 1\n";
  }
  text += phases(running);
  const auto field = [](const char* name) {
    return [name](const json& process) { return process.at(name); };
  };
  text += gauge(running, "slab_bytes", "greatest height of the slabs", field("slab_bytes"));
  text += gauge(running, "lower_bound_bytes", "bound of the plans served from them",
                field("lower_bound_bytes"));
  text += gauge(running, "pool_used_bytes", "of the pool, in blocks",
                [](const json& process) { return process.at("pool").at("used_bytes"); });
  text += gauge(running, "pool_free_bytes", "of the pool, free with memory behind it",
                [](const json& process) { return process.at("pool").at("free_bytes"); });
  text +=
      gauge(running, "peak_bytes", "greatest resident size of the process", field("peak_bytes"));
  text += gauge(running, "threads", "threads that were ever followed", field("threads"));
  text +=
      gauge(running, "age_seconds", "since the process wrote its statistics", field("age_seconds"));
  const auto counter = [&](const char* name, const char* help) {
    text += head(name, "counter", help);
    for (const json& process : running) {
      text += "memomalloc_" + std::string(name) + "_total{" + labels(process) + "} " +
              process.at(name).dump() + "\n";
    }
  };
#define COUNTER(name, unit, help) counter(#name, help);
#include "src/base/counters.def"
#undef COUNTER
  const auto device = [&](const char* name, std::string_view type, const char* help) {
    text += head("gpu_" + std::string(name), std::string(type).c_str(), help);
    for (const json& process : running) {
      for (const json& row : process.at("devices")) {
        text += "memomalloc_gpu_" + std::string(name) + (type == "counter" ? "_total{" : "{") +
                labels(process) + ",device=\"" + row.at("device").dump() + "\"} " +
                row.at(name).dump() + "\n";
      }
    }
  };
#define DEVICE(name, type, help) device(#name, #type, help);
#include "src/io/status_page_numbers.def"
  return text + "# EOF\n";
}

}  // namespace memo::cli
