// Writers for Chrome's trace viewer, Perfetto and torch's memory_viz. Cold.
#include "src/cli/report/report_exports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/cli/base/json_text.h"
#include "src/cli/trace/pickle.h"

namespace memo::cli {
namespace {

// A block's begin or end of being alive; blocks that wrap round have two of each.
struct Moment {
  dsa::Time time = 0;
  bool is_begin = false;
  const MapBlock* block = nullptr;
};

// In the order of time, ends before begins: lifetimes are half-open.
std::vector<Moment> moments(const ThreadMap& map) {
  std::vector<Moment> all;
  for (const MapBlock& block : map.blocks) {
    all.push_back({block.lower, true, &block});
    if (block.gap) {
      all.push_back({block.gap->lower, false, &block});
      all.push_back({block.gap->upper, true, &block});
    }
    all.push_back({block.upper, false, &block});
  }
  std::stable_sort(all.begin(), all.end(), [](const Moment& left, const Moment& right) {
    return left.time != right.time ? left.time < right.time : left.is_begin < right.is_begin;
  });
  return all;
}

// Each device of a snapshot gets an address range of its own.
std::uint64_t base_of(std::size_t device) {
  return (device + 1) << 44U;
}

// A site's name lists its functions, the innermost first, as a viewer wants frames: "f < g < h".
void write_frames(Pickle& pickle, const std::string& name) {
  constexpr std::string_view kBetween = " < ";
  pickle.text("frames");
  pickle.begin_list();
  for (std::size_t from = 0, to = 0; to != std::string::npos; from = to + kBetween.size()) {
    to = name.find(kBetween, from);
    pickle.begin_dictionary();
    pickle.entry("name", name.substr(from, to - from));
    pickle.entry("filename", "");
    pickle.entry("line", std::uint64_t{0});
    pickle.end_dictionary();
  }
  pickle.end_list();
}

void write_segment(Pickle& pickle, const ThreadMap& map, std::size_t device) {
  pickle.begin_dictionary();
  pickle.entry("device", device);
  pickle.entry("address", base_of(device));
  pickle.entry("total_size", map.height);
  pickle.entry("allocated_size", std::uint64_t{0});
  pickle.entry("active_size", std::uint64_t{0});
  pickle.entry("requested_size", std::uint64_t{0});
  pickle.entry("stream", std::uint64_t{0});
  pickle.entry("segment_type", "large");
  pickle.text("frames");
  pickle.begin_list();
  pickle.end_list();
  pickle.text("blocks");
  pickle.begin_list();
  pickle.begin_dictionary();
  pickle.entry("address", base_of(device));
  pickle.entry("size", map.height);
  pickle.entry("requested_size", map.height);
  pickle.entry("state", "inactive");
  pickle.text("frames");
  pickle.begin_list();
  pickle.end_list();
  pickle.end_dictionary();
  pickle.end_list();
  pickle.end_dictionary();
}

void write_event(Pickle& pickle, const Moment& moment, const char* action, std::size_t device,
                 const SiteName& name) {
  pickle.begin_dictionary();
  pickle.entry("action", action);
  pickle.entry("addr", base_of(device) + moment.block->offset);
  pickle.entry("size", moment.block->size);
  pickle.entry("stream", std::uint64_t{0});
  pickle.entry("time_us", static_cast<std::uint64_t>(moment.time));
  write_frames(pickle, name(moment.block->site));
  pickle.end_dictionary();
}

void append_slice(std::string& text, const Moment& moment, std::size_t id, std::uint32_t thread,
                  const std::string& quoted) {
  text += "{\"ph\":\"" + std::string(moment.is_begin ? "b" : "e") +
          "\",\"cat\":\"block\",\"pid\":0,\"tid\":" + std::to_string(thread) +
          ",\"id\":" + std::to_string(id) + ",\"ts\":" + std::to_string(moment.time) +
          ",\"name\":" + quoted;
  if (moment.is_begin) {
    text += ",\"args\":{\"size\":" + std::to_string(moment.block->size) +
            ",\"offset\":" + std::to_string(moment.block->offset) + "}";
  }
  text += "},\n";
}

void append_live(std::string& text, dsa::Time time, std::uint64_t live, const std::string& thread) {
  text += "{\"ph\":\"C\",\"pid\":0,\"tid\":" + thread + ",\"ts\":" + std::to_string(time) +
          ",\"name\":\"live bytes, thread " + thread +
          "\",\"args\":{\"bytes\":" + std::to_string(live) + "}},\n";
}

}  // namespace

std::string chrome_trace(const std::vector<ThreadMap>& maps, const SiteName& name) {
  std::string json = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  std::size_t first_id = 0;
  for (const ThreadMap& map : maps) {
    const std::string thread = std::to_string(map.thread);
    std::uint64_t live = 0;
    for (const Moment& moment : moments(map)) {
      const std::size_t id = first_id + static_cast<std::size_t>(moment.block - map.blocks.data());
      append_slice(json, moment, id, map.thread,
                   json_text(nlohmann::json(name(moment.block->site))));
      live = moment.is_begin ? live + moment.block->size : live - moment.block->size;
      append_live(json, moment.time, live, thread);
    }
    first_id += map.blocks.size();
  }
  json +=
      "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"memomalloc\"}}\n]}\n";
  return json;
}

std::string memory_viz_pickle(const std::vector<ThreadMap>& maps, const SiteName& name) {
  Pickle pickle;
  pickle.begin_dictionary();
  pickle.text("segments");
  pickle.begin_list();
  for (std::size_t device = 0; device < maps.size(); ++device) {
    write_segment(pickle, maps[device], device);
  }
  pickle.end_list();
  pickle.text("device_traces");
  pickle.begin_list();
  for (std::size_t device = 0; device < maps.size(); ++device) {
    pickle.begin_list();
    for (const Moment& moment : moments(maps[device])) {
      for (const char* action : moment.is_begin ? std::vector{"alloc"}
                                                : std::vector{"free_requested", "free_completed"}) {
        write_event(pickle, moment, action, device, name);
      }
    }
    pickle.end_list();
  }
  pickle.end_list();
  pickle.end_dictionary();
  return pickle.finish();
}

}  // namespace memo::cli
