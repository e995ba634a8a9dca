// See snapshot.h. Cold.
#include "src/cli/trace/snapshot.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "src/cli/trace/unpickle.h"

namespace memo::cli {
namespace {

using Index = Pickled::Index;
using Kind = Pickled::Kind;

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 60U;  // of all blocks: no sum overflows
constexpr std::uint64_t kMaxDevices = 4096;

// What one device's part of the pickle is read into, with what is needed meanwhile.
struct Building {
  SnapshotDevice device;
  std::unordered_map<std::uint64_t, std::uint32_t> alive;  // address -> block
  std::int64_t grown = 0;                                  // bytes reserved since the trace's begin
  std::int64_t most_grown = 0;
};

class Reader {
 public:
  Reader(const Pickled& data, std::string& error)
      : data_(data), error_(error), walks_(data.count()) {}

  std::optional<Snapshot> read() {
    const auto traces = data_.find(data_.root(), "device_traces");
    const auto segments = data_.find(data_.root(), "segments");
    if (!traces || !segments) {
      fail(data_.root(),
           "this holds no device_traces and segments, so it is no snapshot of torch's");
      return std::nullopt;
    }
    if (list(*traces, "device_traces") && list(*segments, "segments")) {
      read_traces(*traces);
      read_segments(*segments);
    }
    if (!error_.empty()) {
      return std::nullopt;
    }
    for (auto& [number, building] : building_) {
      finish(building);
      if (!building.device.blocks.empty() || building.device.reserved > 0) {
        result_.devices.push_back(std::move(building.device));
      }
    }
    return std::move(result_);
  }

 private:
  bool fail(Index where, const std::string& reason) {
    if (error_.empty()) {
      error_ = "byte " + std::to_string(data_.byte(where)) + ": " + reason;
    }
    return false;
  }

  bool list(Index value, const char* what) {
    return data_.kind(value) == Kind::kList || data_.kind(value) == Kind::kTuple ||
           fail(value, std::string(what) + " is no list");
  }

  // Shared parts could make a small file a long walk; a real snapshot names each part once.
  bool walk(Index value) {
    if (walks_ == 0) {
      return fail(value, "one part of the file stands for too many blocks");
    }
    --walks_;
    return data_.kind(value) == Kind::kDictionary || fail(value, "this is no dictionary");
  }

  // A whole number of the dictionary; `missing` if it has none of this name, and an error if that
  // is negative.
  std::int64_t number(Index dictionary, const char* name, std::int64_t missing = -1) {
    const auto value = data_.find(dictionary, name);
    if (!value && missing >= 0) {
      return missing;
    }
    if (!value || data_.kind(*value) != Kind::kNumber || data_.number(*value) > kMaxBytes) {
      fail(value.value_or(dictionary), std::string(name) + " is no number from 0 to 2^60");
      return 0;
    }
    return static_cast<std::int64_t>(data_.number(*value));
  }

  // An address has 64 bits of which any may be set.
  std::uint64_t address(Index dictionary, const char* name) {
    const auto value = data_.find(dictionary, name);
    if (!value || data_.kind(*value) != Kind::kNumber) {
      fail(value.value_or(dictionary), std::string(name) + " is no address");
      return 0;
    }
    return data_.number(*value);
  }

  std::string_view word(Index dictionary, const char* name) {
    const auto value = data_.find(dictionary, name);
    if (!value || data_.kind(*value) != Kind::kText) {
      fail(value.value_or(dictionary), std::string(name) + " is no text");
      return {};
    }
    return data_.text(*value);
  }

  void read_traces(Index traces) {
    const std::vector<Index>& all = data_.items(traces);
    if (all.size() > kMaxDevices) {
      fail(traces, std::to_string(all.size()) + " devices");
    }
    for (std::uint32_t number = 0; number < all.size() && error_.empty(); ++number) {
      if (!list(all[number], "a device's trace")) {
        return;
      }
      Building& building = building_[number];
      building.device.number = number;
      for (const Index entry : data_.items(all[number])) {
        if (!walk(entry) || !read_entry(entry, building)) {
          return;
        }
      }
    }
  }

  bool read_entry(Index entry, Building& to) {
    const std::string_view action = word(entry, "action");
    if (action == "alloc" || action == "free_completed") {
      const std::uint64_t at = address(entry, "addr");
      const auto size = static_cast<std::uint64_t>(number(entry, "size"));
      if (error_.empty()) {
        action == "alloc" ? allocate(entry, at, size, to) : free(entry, at, size, to);
      }
    } else if (action == "segment_alloc" || action == "segment_map") {
      to.grown += number(entry, "size");
      to.most_grown = std::max(to.most_grown, to.grown);
    } else if (action == "segment_free" || action == "segment_unmap") {
      to.grown -= number(entry, "size");
    }
    if (std::abs(to.grown) > static_cast<std::int64_t>(kMaxBytes)) {
      fail(entry, "the segments have more than 2^60 bytes");
    }
    return error_.empty();
  }

  void note(Index where, std::uint32_t block, bool is_free, Building& to) {
    to.device.events.push_back({block, is_free, number(where, "time_us", 0)});
  }

  // A snapshot without streams has one.
  std::uint64_t stream(Index dictionary) {
    const auto value = data_.find(dictionary, "stream");
    return value && data_.kind(*value) == Kind::kNumber ? data_.number(*value) : 0;
  }

  // `named`: the part that tells the stream.
  std::uint32_t add_block(Index where, Index named, std::uint64_t size, std::uint32_t lower,
                          Building& to) {
    bytes_ += size;
    if (bytes_ > kMaxBytes) {
      fail(where, "the blocks have more than 2^60 bytes");
    }
    to.device.blocks.push_back({size, site(where), stream(named), lower, 0, false});
    return static_cast<std::uint32_t>(to.device.blocks.size() - 1);
  }

  void allocate(Index entry, std::uint64_t at, std::uint64_t size, Building& to) {
    const auto now = static_cast<std::uint32_t>(to.device.events.size());
    if (const auto found = to.alive.find(at); found != to.alive.end()) {
      ++to.device.contradictions;  // its end is missing: this is it
      end_block(found->second, to);
      note(entry, found->second, true, to);
      return allocate_at(entry, at, size, now + 1, to);
    }
    allocate_at(entry, at, size, now, to);
  }

  void allocate_at(Index entry, std::uint64_t at, std::uint64_t size, std::uint32_t now,
                   Building& to) {
    const std::uint32_t block = add_block(entry, entry, size, now + 1, to);
    to.alive[at] = block;
    note(entry, block, false, to);
  }

  // A block that was not seen to be allocated was alive before the trace begins.
  void free(Index entry, std::uint64_t at, std::uint64_t size, Building& to) {
    const auto found = to.alive.find(at);
    const std::uint32_t block =
        found != to.alive.end() ? found->second : add_block(entry, entry, size, 0, to);
    if (found != to.alive.end()) {
      to.alive.erase(found);
    }
    end_block(block, to);
    note(entry, block, true, to);
  }

  static void end_block(std::uint32_t block, Building& to) {
    to.device.blocks[block].upper = static_cast<std::uint32_t>(to.device.events.size() + 1);
    to.device.blocks[block].freed = true;
  }

  // Segments tell what was alive and reserved when the snapshot was taken.
  void read_segments(Index segments) {
    for (const Index segment : data_.items(segments)) {
      if (!walk(segment)) {
        return;
      }
      const std::int64_t number_of = number(segment, "device", 0);
      const auto blocks = data_.find(segment, "blocks");
      if (!blocks || !list(*blocks, "blocks")) {
        fail(segment, "a segment has no blocks");
        return;
      }
      if (number_of >= static_cast<std::int64_t>(kMaxDevices)) {
        fail(segment, "device " + std::to_string(number_of));
        return;
      }
      Building& building = building_[static_cast<std::uint32_t>(number_of)];
      building.device.number = static_cast<std::uint32_t>(number_of);
      building.device.reserved_now += static_cast<std::uint64_t>(number(segment, "total_size"));
      if (building.device.reserved_now > kMaxBytes) {
        fail(segment, "the segments have more than 2^60 bytes");
      }
      std::uint64_t at = address(segment, "address");
      for (const Index block : data_.items(*blocks)) {
        if (!walk(block) || !error_.empty()) {
          return;
        }
        const auto size = static_cast<std::uint64_t>(number(block, "size"));
        read_block(block, segment, at, size, building);
        at += size;
      }
    }
  }

  void read_block(Index block, Index segment, std::uint64_t at, std::uint64_t size, Building& to) {
    const std::string_view state = word(block, "state");
    if (data_.find(block, "address")) {  // torch before 2.1 leaves it out
      at = address(block, "address");
    }
    if (state.starts_with("active") && to.alive.find(at) == to.alive.end()) {
      const std::int64_t asked = number(block, "requested_size", static_cast<std::int64_t>(size));
      to.alive[at] = add_block(block, segment, static_cast<std::uint64_t>(asked), 0, to);
    }
  }

  // Call stacks are shared by many entries.
  std::uint64_t site(Index entry) {
    const auto frames = data_.find(entry, "frames");
    if (!frames || !data_.holds(*frames) || data_.items(*frames).empty()) {
      return 0;
    }
    const auto [found, is_new] = sites_.try_emplace(*frames, 0);
    if (!is_new) {
      return found->second;
    }
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    std::string name;
    for (const Index frame : data_.items(*frames)) {
      std::string text = frame_text(frame);
      for (const char letter : text) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
      }
      if (name.empty() ||
          (name.find(".py:") == std::string::npos && text.find(".py:") != std::string::npos)) {
        name = std::move(text);
      }
    }
    found->second = hash;
    result_.sites[hash] = name;
    return hash;
  }

  // "name (file.py:12)"; parts that are no text are left out.
  std::string frame_text(Index frame) const {
    const auto part = [&](const char* name) -> std::string_view {
      const auto value = data_.find(frame, name);
      return value && data_.kind(*value) == Kind::kText ? data_.text(*value) : std::string_view();
    };
    std::string_view file = part("filename");
    file = file.substr(file.rfind('/') + 1);
    const auto line = data_.find(frame, "line");
    const std::uint64_t row = line && data_.kind(*line) == Kind::kNumber ? data_.number(*line) : 0;
    return std::string(part("name")) + " (" + std::string(file) + ":" + std::to_string(row) + ")";
  }

  // Blocks from before come first; sums and peaks.
  static void finish(Building& from) {
    SnapshotDevice& device = from.device;
    std::vector<std::uint32_t> order(device.blocks.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    const auto middle = std::stable_partition(
        order.begin(), order.end(), [&](std::uint32_t i) { return device.blocks[i].lower == 0; });
    device.before = static_cast<std::uint32_t>(middle - order.begin());
    std::vector<SnapshotBlock> blocks;
    std::vector<std::uint32_t> place(order.size());
    const auto end = static_cast<std::uint32_t>(device.events.size() + 1);
    std::uint64_t now = 0;
    for (const std::uint32_t i : order) {
      place[i] = static_cast<std::uint32_t>(blocks.size());
      blocks.push_back(device.blocks[i]);
      blocks.back().upper = blocks.back().freed ? blocks.back().upper : end;
      now += blocks.back().lower == 0 ? blocks.back().size : 0;
    }
    device.blocks = std::move(blocks);
    device.alive = now;
    for (SnapshotEvent& event : device.events) {
      event.block = place[event.block];
      const std::uint64_t size = device.blocks[event.block].size;
      now = event.is_free ? now - size : now + size;
      device.alive = std::max(device.alive, now);
    }
    const std::int64_t start = static_cast<std::int64_t>(device.reserved_now) - from.grown;
    device.contradictions += start < 0 ? 1 : 0;
    device.reserved =
        std::max(static_cast<std::uint64_t>(std::max<std::int64_t>(start, 0) + from.most_grown),
                 device.reserved_now);
  }

  const Pickled& data_;
  std::string& error_;
  std::uint64_t walks_;
  std::uint64_t bytes_ = 0;
  std::map<std::uint32_t, Building> building_;
  std::unordered_map<Index, std::uint64_t> sites_;  // by the list of frames
  Snapshot result_;
};

}  // namespace

std::optional<Snapshot> read_snapshot(std::string_view bytes, const std::string& name,
                                      std::string& error) {
  std::string reason;
  std::optional<Snapshot> result;
  if (const std::optional<Pickled> data = Pickled::read(bytes, reason)) {
    result = Reader(*data, reason).read();
  }
  if (!result) {
    error = name + ": " + reason;
  }
  return result;
}

}  // namespace memo::cli
