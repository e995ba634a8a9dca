// The memory of one device: which zone serves a call, where physical memory comes from when there
// is too little, when freed memory may be used again. One lock for all of it; any thread. Cold:
// torch asks some thousand times a second.
//
//   a call of at least kLarge -> the learner knows its step? -> claim the step's place in the slab
//                           else, or that is taken -> the pool: smallest free place with memory
//                           none                   -> the free place that needs fewest chunks
//   chunks come from: what is mapped nowhere; idle chunks elsewhere, once the peak of what tensors
//                     need is held and while that costs little time; the driver; idle chunks at any
//                     cost; after waiting for the streams
//
// Source: zones and chunks that move between them follow GMLake (ASPLOS 2024) in that physical
// memory is mapped at new addresses instead of being copied; the plan is MemoMalloc's (thesis,
// section 3).
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/gpu/clock.h"
#include "src/gpu/driver.h"
#include "src/gpu/learner.h"
#include "src/gpu/physical.h"
#include "src/gpu/statistics.h"
#include "src/gpu/zone.h"
#include "src/io/status_page.h"

namespace memo::gpu {

inline constexpr std::uint64_t kBorder = 512;  // bytes: every tensor begins on one
inline constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;  // smaller ones are not planned
inline constexpr std::uint64_t kSmallChunk = std::uint64_t{2} << 20;

struct Settings {
  std::uint64_t chunk = std::uint64_t{4} << 20;  // of large blocks; a multiple of kSmallChunk
  bool plan = true;                              // false: the pool alone
  PlanExchange* cache = nullptr;                 // of plans, if there is one
  std::uint32_t plan_milliseconds = 100;         // most for making one
};

// What is said of a GPU that cannot map memory.
std::string no_virtual_memory(int number);

// Which pool of a graph; torch's MempoolId_t.
struct PoolId {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const PoolId&, const PoolId&) = default;
};

class Device {
 public:
  // `driver` is loaded, and outlives the device, as plans do.
  // Where the device cannot do what is needed here, each call for memory tells so.
  Device(const Driver& driver, int number, int device_count, const Settings& settings);

  struct Result {
    Address address = 0;
    std::string error;   // empty: done
    bool memory = true;  // the error is that there is no memory
  };
  // A block of `bytes` for work on `stream`. 0 bytes: address 0.
  Result allocate(std::uint64_t bytes, Stream stream);
  // False if no block of this device that is alive begins there.
  bool free(Address address);
  // A stream, which may be another device's; the default stream of each device is null.
  struct Queue {
    Context context = nullptr;
    Stream stream = nullptr;
    friend auto operator<=>(const Queue&, const Queue&) = default;
  };
  // Work on the stream uses the block: it may be used again only when that is done, too.
  void record_stream(Address address, Queue queue);
  void record_stream(Address address, Stream stream) { record_stream(address, {context_, stream}); }
  [[nodiscard]] Context context() const { return context_; }
  // Bytes asked for of the block that begins at `address`; 0: there is none.
  std::uint64_t size_of(Address address);

  // From now on what `takes(stream)` accepts comes from the graph's pool, and stays there until the
  // pool was released as often as it was begun.
  void begin_pool(PoolId id, std::function<bool(Stream)> takes);
  void end_pool(PoolId id);
  void release_pool(PoolId id);

  // Returns to the driver what no tensor needs. Plans stay, and are served again when calls fit.
  void give_back();
  // Takes away the memory of all blocks, their addresses stay; `keep`: their contents are copied to
  // the host. False, and nothing has changed, where a stream is captured or the host has no memory.
  bool sleep(bool keep);
  // Gives it back. False where there is too little memory: then it sleeps on.
  bool wake();

  void limit(double fraction);
  void reset_peaks();
  // As a JSON object; and in short.
  std::string statistics();
  StatusDevice status();
  // For tests: all zones are valid.
  bool valid();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Zones {  // of one stream
    Zones(Device& device, Stream stream);
    Clock clock;
    Zone small;
    Zone large;
  };
  struct Lane {
    Lane(Device& device, Stream stream);
    Zones zones;
    Zone slab;
    Learner learner;
  };
  struct Graph {
    PoolId id;
    std::int64_t begun = 0;  // without release
    bool active = false;     // between begin_pool() and end_pool()
    std::function<bool(Stream)> takes;
    std::unordered_map<Stream, std::unique_ptr<Zones>> zones;
  };
  struct Block {
    Zone* zone = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  // whole borders
    std::uint64_t asked = 0;
    Learner* learner = nullptr;  // that saw it
    std::uint64_t number = 0;    // for Learner::freed
    bool large = false;
    std::vector<Queue> used_on;  // besides its own
  };
  struct Use {                     // of a block that was freed, on another stream
    std::shared_ptr<Block> block;  // of the last of its uses: free
    Event event = nullptr;         // behind the use; null: not recorded
    bool over = false;
  };
  struct Asleep {
    Zone* zone;
    std::uint32_t chunk;
    std::unique_ptr<char[]>
        contents;  // null: there was no block in it, or they were not to be kept
  };

  void open();
  Interval carve(std::uint64_t least, std::uint64_t bytes);
  Lane& lane_of(Stream stream);
  Zones* graph_zones(Stream stream);
  bool plan(Lane& lane, Block& block);
  bool wake_up();
  bool claim(Zone& slab, std::uint64_t offset, std::uint64_t bytes);
  bool place(Zone& zone, Block& block);
  bool commit(Zone& zone, std::uint64_t offset, std::uint64_t bytes, bool thrifty);
  Handle obtain(std::uint64_t chunk_bytes, bool thrifty);
  [[nodiscard]] bool time_to_move() const;
  Handle steal(std::uint64_t chunk_bytes);
  void unpin_slabs();
  void close_slabs();
  void drop_idle();
  bool wait_all();
  bool wait_device();
  void settle_graphs();
  template <typename Visit>
  void each_zone(Visit visit);
  template <typename Visit>
  void each_clock(Visit visit);
  void poll();
  bool capturing(const Queue& queue);
  void mark(const Queue& queue, Use& use);
  bool passed(const Queue& queue, Use& use);
  void finish(const Block& block);
  [[nodiscard]] const char* phase() const;
  [[nodiscard]] const Schedule* tallest_plan() const;
  Result refusal(std::uint64_t bytes);

  std::mutex lock_;
  const Driver& driver_;
  int number_;
  Settings settings_;
  std::atomic<Context> context_ = nullptr;  // null: the driver has refused it until now
  Physical physical_;
  std::string problem_;           // why the device can serve nothing; empty: it can
  std::uint64_t addresses_left_;  // of this device's share
  PlanStore plans_;
  std::unordered_map<Stream, std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::unordered_map<Address, Block> blocks_;
  std::map<Queue, std::deque<Use>> uses_;  // oldest first
  std::unordered_map<Context, std::vector<Event>> spare_events_;
  std::vector<Asleep> asleep_;
  bool sleeping_ = false;
  Time started_;
  std::chrono::nanoseconds moving_{0};  // spent on moving chunks that were idle elsewhere
  std::uint64_t needed_ = 0;            // bytes: the most that were in use at once, for ever
  Figures figures_;
};

}  // namespace memo::gpu
