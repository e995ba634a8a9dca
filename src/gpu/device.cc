// See device.h. Cold.
#include "src/gpu/device.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "src/base/bits.h"
#include "src/base/check.h"

namespace memo::gpu {
namespace {

// Of addresses, which all devices of the process share, and which cost nothing but page tables of
// what is mapped: three quarters of those that there are.
constexpr std::uint64_t kAddresses = std::uint64_t{96} << 40;
constexpr std::uint64_t kSmallZone = std::uint64_t{64} << 30;
// A zone of large blocks has this many times the addresses that the device has memory, if it can.
constexpr std::uint64_t kSpan = 4;

// Reserved memory may exceed the peak of what tensors need by so much before idle chunks are moved.
constexpr std::uint64_t kSlack = std::uint64_t{64} << 20;
constexpr std::uint64_t kSlackShare = 128;
// Time for moving them, each of which takes tens of microseconds: a start, and a share of what has
// passed. Beyond it new memory is made, as an allocator would that cannot move any.
constexpr std::chrono::milliseconds kMovingStart{500};
constexpr int kMovingShare = 100;

std::uint64_t whole(std::uint64_t bytes) {
  return round_up(bytes, kBorder);
}

std::string human(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes >= (std::uint64_t{1} << 30) ? "%.2f GiB" : "%.2f MiB",
                static_cast<double>(bytes) /
                    (bytes >= (std::uint64_t{1} << 30) ? 1024.0 * 1024 * 1024 : 1024.0 * 1024));
  return text;
}

}  // namespace

std::string no_virtual_memory(int number) {
  return "GPU " + std::to_string(number) + " has no virtual memory management";
}

Device::Zones::Zones(Device& device, Stream stream)
    : clock(device.driver_, stream),
      small(device.physical_, clock, device.carve(kSmallZone / kSpan, kSmallZone), kSmallChunk),
      large(device.physical_, clock,
            device.carve(device.physical_.total(), kSpan * device.physical_.total()),
            device.settings_.chunk) {}

Device::Lane::Lane(Device& device, Stream stream)
    : zones(device, stream),
      slab(device.physical_, zones.clock, device.carve(device.physical_.total(), 0),
           device.settings_.chunk),
      learner(device.plans_) {}

Device::Device(const Driver& driver, int number, int device_count, const Settings& settings)
    : driver_(driver),
      number_(number),
      settings_(settings),
      physical_(driver, number, device_count),
      addresses_left_(kAddresses / static_cast<std::uint64_t>(std::max(device_count, 1))),
      plans_(settings.cache, physical_.total(), settings.plan_milliseconds) {
  started_ = std::chrono::steady_clock::now();
  open();
}

// Where the driver refuses the context, the next call for memory asks again: other processes may
// have had the memory for it.
void Device::open() {
  problem_.clear();
  int has = 0;
  Context context = nullptr;
  const int error = driver_.retain_context(&context, number_);
  context_ = error == kSuccess ? context : nullptr;
  if (error != kSuccess) {
    problem_ = "GPU " + std::to_string(number_) + " cannot be used: " + driver_.name_of(error);
  } else if (driver_.device_attribute(&has, kHasVirtualMemory, number_) != kSuccess || has == 0) {
    problem_ = no_virtual_memory(number_);
  } else if (kSmallChunk % physical_.granularity() != 0) {
    problem_ = "GPU " + std::to_string(number_) + " maps memory in pieces of " +
               human(physical_.granularity()) + ", which do not make up " + human(kSmallChunk);
  }
}

// Zones are for ever: a stream's are used again when the stream is. No zone takes more than a small
// part of what is left, so that there is something for each, but all have room for the device's
// memory (`least`). None: the zone's calls end as without memory.
Interval Device::carve(std::uint64_t least, std::uint64_t bytes) {
  constexpr std::uint64_t kPart = 16;
  const std::uint64_t size =
      round_up(std::max(least, std::min(bytes, addresses_left_ / kPart)), settings_.chunk);
  Address base = 0;
  if (const int error = driver_.reserve(&base, size, settings_.chunk, 0, 0); error != kSuccess) {
    physical_.set_error(error);
    return {};
  }
  addresses_left_ -= std::min(addresses_left_, size);
  return {base, base + size};
}

Device::Lane& Device::lane_of(Stream stream) {
  auto found = lanes_.find(stream);
  if (found == lanes_.end()) {
    found = lanes_.emplace(stream, std::make_unique<Lane>(*this, stream)).first;
  }
  return *found->second;
}

Device::Zones* Device::graph_zones(Stream stream) {
  for (const auto& graph : graphs_) {
    if (graph->active && graph->takes(stream)) {
      auto found = graph->zones.find(stream);
      if (found == graph->zones.end()) {
        found = graph->zones.emplace(stream, std::make_unique<Zones>(*this, stream)).first;
        found->second->small.pinned = found->second->large.pinned = true;
      }
      return found->second.get();
    }
  }
  return nullptr;
}

Device::Result Device::allocate(std::uint64_t bytes, Stream stream) {
  if (bytes == 0) {
    return {};
  }
  const std::lock_guard guard(lock_);
  if (context_ == nullptr) {
    open();
  }
  if (!problem_.empty()) {
    return {0, problem_, false};
  }
  const Scope scope(driver_, context_);
  physical_.set_error(kSuccess);
  if (sleeping_ && !wake_up()) {
    Result refused = refusal(bytes);
    if (refused.memory) {
      refused.error = "the device sleeps, and there is too little memory to wake it";
    }
    return refused;
  }
  poll();
  Block block;
  block.asked = bytes;
  block.bytes = whole(bytes);
  block.large = block.bytes >= kLarge;
  // Before a place is looked for: what is needed decides whether memory is moved or made.
  const std::uint64_t needed = needed_;
  needed_ = std::max(needed_, figures_.active_bytes.all.current + block.bytes);
  bool placed = false;
  if (block.bytes >= bytes && block.bytes <= physical_.total()) {
    if (Zones* graph = graph_zones(stream)) {
      placed = place(block.large ? graph->large : graph->small, block);
    } else {
      Lane& lane = lane_of(stream);
      placed = (block.large && settings_.plan && plan(lane, block)) ||
               place(block.large ? lane.zones.large : lane.zones.small, block);
    }
  }
  if (!placed) {
    needed_ = needed;
    return refusal(bytes);
  }
  figures_.allocation.add(block.large, 1);
  figures_.allocated_bytes.add(block.large, block.bytes);
  figures_.requested_bytes.add(block.large, bytes);
  figures_.active.add(block.large, 1);
  figures_.active_bytes.add(block.large, block.bytes);
  const Address address = block.zone->base() + block.offset;
  const bool fresh = blocks_.emplace(address, std::move(block)).second;
  MEMO_CHECK(fresh);
  return {address, "", true};
}

bool Device::place(Zone& zone, Block& block) {
  block.zone = &zone;
  if (const auto found = zone.allocate(block.bytes)) {
    block.offset = *found;
    if (block.large) {
      figures_.reused.add(block.bytes);
    }
    return true;
  }
  const auto found = zone.allocate_bare(block.bytes);
  if (!found) {
    return false;
  }
  if (!commit(zone, *found, block.bytes, false)) {
    zone.release(*found, block.bytes);
    return false;
  }
  block.offset = *found;
  if (block.large) {
    figures_.other.add(block.bytes);
  }
  return true;
}

bool Device::time_to_move() const {
  return moving_ < kMovingStart + (std::chrono::steady_clock::now() - started_) / kMovingShare;
}

// `thrifty`: rather idle chunks than new ones, whatever time that takes.
bool Device::commit(Zone& zone, std::uint64_t offset, std::uint64_t bytes, bool thrifty) {
  if (zone.base() == 0) {
    return false;
  }
  each_clock([](Clock& clock) { clock.tick(); });  // the last few frees may be over, too
  const std::vector<std::uint32_t> missing = zone.missing(offset, bytes);
  for (std::size_t i = 0; i < missing.size();) {
    std::vector<Handle> handles;
    bool refused = false;
    std::size_t end = i;
    const std::uint64_t stolen = figures_.stolen;
    for (; end < missing.size() && missing[end] == missing[i] + (end - i); ++end) {
      const Handle handle = obtain(zone.chunk_bytes(), thrifty);
      if (handle == 0) {
        refused = true;
        break;
      }
      handles.push_back(handle);
    }
    const Time from = std::chrono::steady_clock::now();
    const bool filled = !handles.empty() && zone.fill(missing[i], handles);
    if (!thrifty && figures_.stolen != stolen) {
      moving_ += std::chrono::steady_clock::now() - from;
    }
    if (!filled) {
      for (const Handle handle : handles) {
        physical_.give(handle, zone.chunk_bytes());
      }
      return false;
    }
    if (refused) {
      return false;
    }
    i = end;
  }
  return true;
}

Handle Device::obtain(std::uint64_t chunk_bytes, bool thrifty) {
  if (physical_.has_spare(chunk_bytes)) {
    return physical_.take(chunk_bytes);
  }
  if ((thrifty || time_to_move()) &&
      physical_.reserved() + chunk_bytes > needed_ + std::max(kSlack, needed_ / kSlackShare)) {
    const Time from = std::chrono::steady_clock::now();
    const Handle handle = steal(chunk_bytes);
    if (!thrifty) {
      moving_ += std::chrono::steady_clock::now() - from;
    }
    if (handle != 0) {
      return handle;
    }
  }
  if (const Handle handle = physical_.take(chunk_bytes)) {
    return handle;
  }
  if (const Handle handle = steal(chunk_bytes)) {
    return handle;
  }
  // There is no memory: what streams have used, then what plans keep, then chunks of other sizes.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt == 1) {
      close_slabs();
    }
    ++figures_.waits;
    wait_all();
    settle_graphs();
    if (const Handle handle = steal(chunk_bytes)) {
      return handle;
    }
    drop_idle();
    if (const Handle handle = physical_.take(chunk_bytes)) {
      return handle;
    }
  }
  return 0;
}

Handle Device::steal(std::uint64_t chunk_bytes) {
  Handle handle = 0;
  each_zone([&](Zone& zone) {
    if (handle == 0 && zone.chunk_bytes() == chunk_bytes) {
      handle = zone.take_idle();
    }
  });
  figures_.stolen += handle != 0;
  return handle;
}

// Slabs first: what no plan needs any more is worth least.
template <typename Visit>
void Device::each_zone(Visit visit) {
  for (auto& [stream, lane] : lanes_) {
    visit(lane->slab);
  }
  for (auto& [stream, lane] : lanes_) {
    visit(lane->zones.large);
    visit(lane->zones.small);
  }
  for (auto& graph : graphs_) {
    for (auto& [stream, zones] : graph->zones) {
      visit(zones->large);
      visit(zones->small);
    }
  }
}

template <typename Visit>
void Device::each_clock(Visit visit) {
  for (auto& [stream, lane] : lanes_) {
    visit(lane->zones.clock);
  }
  for (auto& graph : graphs_) {
    for (auto& [stream, zones] : graph->zones) {
      visit(zones->clock);
    }
  }
}

// What plans keep and no block needs may be taken; a plan that is served takes it back.
void Device::unpin_slabs() {
  for (auto& [stream, lane] : lanes_) {
    lane->slab.pinned = false;
  }
}

// Blocks that lie in the slabs stay where they are.
void Device::close_slabs() {
  for (auto& [stream, lane] : lanes_) {
    if (lane->learner.serving() != nullptr) {
      lane->learner.refuse();
    }
  }
  unpin_slabs();
}

void Device::drop_idle() {
  each_zone([&](Zone& zone) {
    while (const Handle handle = zone.take_idle()) {
      physical_.give(handle, zone.chunk_bytes());
    }
  });
  physical_.drop_spare();
}

// Blocks that other streams have used become free before the clocks wait: what is free after that
// is in use for one epoch more.
bool Device::wait_all() {
  bool all = true;
  for (const auto& [queue, uses] : uses_) {
    if (uses.empty()) {
      continue;
    }
    const Scope scope(driver_, queue.context);
    if (capturing(queue)) {
      all = false;
    } else {
      driver_.synchronize_stream(queue.stream);
    }
  }
  poll();
  each_clock([&](Clock& clock) { all = clock.wait() && all; });
  return all;
}

bool Device::free(Address address) {
  const std::lock_guard guard(lock_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) {
    return false;
  }
  Block block = std::move(found->second);
  blocks_.erase(found);
  figures_.allocation.remove(block.large, 1);
  figures_.allocated_bytes.remove(block.large, block.bytes);
  figures_.requested_bytes.remove(block.large, block.asked);
  const Scope scope(driver_, context_);
  if (block.used_on.empty()) {
    finish(block);
  } else {
    const auto shared = std::make_shared<Block>(std::move(block));
    for (const Queue& queue : shared->used_on) {
      std::deque<Use>& uses = uses_[queue];
      mark(queue, uses.emplace_back(Use{shared}));
    }
  }
  poll();
  return true;
}

void Device::finish(const Block& block) {
  block.zone->release(block.offset, block.bytes);
  if (block.learner != nullptr) {
    block.learner->freed(block.number);
  }
  figures_.active.remove(block.large, 1);
  figures_.active_bytes.remove(block.large, block.bytes);
}

void Device::record_stream(Address address, Queue queue) {
  const std::lock_guard guard(lock_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || queue == Queue{context_, found->second.zone->clock().stream()}) {
    return;
  }
  std::vector<Queue>& queues = found->second.used_on;
  if (std::find(queues.begin(), queues.end(), queue) == queues.end()) {
    queues.push_back(queue);
  }
}

std::uint64_t Device::size_of(Address address) {
  const std::lock_guard guard(lock_);
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? 0 : found->second.asked;
}

bool Device::capturing(const Queue& queue) {
  int state = 0;
  return driver_.is_capturing(queue.stream, &state) == kSuccess && state != 0;
}

// Not while the stream is captured: the event would belong to the graph, and never pass.
void Device::mark(const Queue& queue, Use& use) {
  const Scope scope(driver_, queue.context);  // an event records streams of its own device alone
  if (capturing(queue)) {
    return;
  }
  std::vector<Event>& spare = spare_events_[queue.context];
  Event event = nullptr;
  if (spare.empty() && driver_.create_event(&event, kWithoutTiming) == kSuccess) {
    spare.push_back(event);
  }
  if (!spare.empty() && driver_.record_event(spare.back(), queue.stream) == kSuccess) {
    use.event = spare.back();
    spare.pop_back();
  } else {  // the stream is gone
    driver_.synchronize_stream(queue.stream);
    use.over = true;
  }
}

bool Device::passed(const Queue& queue, Use& use) {
  if (use.event == nullptr && !use.over) {
    mark(queue, use);
  }
  if (use.event == nullptr) {
    return use.over;
  }
  const int state = driver_.query_event(use.event);
  if (state == kNotReady) {
    return false;
  }
  spare_events_[queue.context].push_back(use.event);
  use.event = nullptr;
  return state != kCapturedEvent;  // else it is recorded again, once the capture is over
}

// Of each stream in order, and some at a time: one that has not passed stops the look at its own,
// as in torch.
void Device::poll() {
  for (auto& [queue, uses] : uses_) {
    for (; !uses.empty() && passed(queue, uses.front()); uses.pop_front()) {
      if (uses.front().block.use_count() == 1) {
        finish(*uses.front().block);
      }
    }
  }
}

void Device::begin_pool(PoolId id, std::function<bool(Stream)> takes) {
  const std::lock_guard guard(lock_);
  for (auto& graph : graphs_) {
    if (graph->id == id && graph->begun > 0) {
      ++graph->begun;
      graph->active = true;
      graph->takes = std::move(takes);
      return;
    }
  }
  // The addresses of one that was released and has no memory any more are used again.
  auto found = std::find_if(graphs_.begin(), graphs_.end(), [](const auto& graph) {
    return graph->begun == 0 &&
           std::all_of(graph->zones.begin(), graph->zones.end(), [](const auto& one) {
             return one.second->small.empty() && one.second->large.empty();
           });
  });
  if (found == graphs_.end()) {
    found = graphs_.insert(found, std::make_unique<Graph>());
  }
  Graph& graph = **found;
  graph.id = id;
  graph.begun = 1;
  graph.active = true;
  graph.takes = std::move(takes);
}

void Device::end_pool(PoolId id) {
  const std::lock_guard guard(lock_);
  for (auto& graph : graphs_) {
    if (graph->id == id) {
      graph->active = false;
      graph->takes = nullptr;
    }
  }
}

void Device::release_pool(PoolId id) {
  const std::lock_guard guard(lock_);
  for (auto& graph : graphs_) {
    graph->begun -= graph->id == id && graph->begun > 0;
  }
}

// Waits for all work of the device. Not in a capture, which that would end: also a stream that has no
// clock may be captured.
bool Device::wait_device() {
  bool captured =
      std::any_of(graphs_.begin(), graphs_.end(), [](const auto& graph) { return graph->active; });
  each_clock([&](Clock& clock) { captured = captured || clock.capturing(); });
  return !captured && driver_.synchronize_context() == kSuccess;
}

// A graph is replayed on whatever stream, and may be destroyed while that runs; tensors of its pool
// may outlive it, and be used on whatever stream. What is free in a released pool is anybody's once
// the device is idle, which is waited for where memory is asked for.
void Device::settle_graphs() {
  std::vector<Zone*> released;
  for (const auto& graph : graphs_) {
    for (auto& [stream, zones] : graph->zones) {
      for (Zone* zone : {&zones->large, &zones->small}) {
        if (graph->begun == 0 && zone->has_idle()) {
          released.push_back(zone);
        }
      }
    }
  }
  if (released.empty() || !wait_device()) {
    return;
  }
  for (Zone* zone : released) {
    zone->give_all(false);
  }
}

void Device::give_back() {
  const std::lock_guard guard(lock_);
  const Scope scope(driver_, context_);
  unpin_slabs();
  wait_all();
  settle_graphs();
  drop_idle();
}

bool Device::sleep(bool keep) {
  const std::lock_guard guard(lock_);
  const Scope scope(driver_, context_);
  if (sleeping_) {
    return true;
  }
  if (!wait_all() || !wait_device()) {
    return false;
  }
  unpin_slabs();
  settle_graphs();
  drop_idle();
  bool enough = true;
  each_zone([&](Zone& zone) {
    for (std::uint32_t chunk = 0; chunk < zone.chunk_count() && enough; ++chunk) {
      // A graph's replay uses what the graph has freed, too.
      if ((!zone.in_use(chunk) && !zone.pinned) ||
          !zone.missing(chunk * zone.chunk_bytes(), 1).empty()) {
        continue;
      }
      Asleep one{&zone, chunk, nullptr};
      if (keep && zone.in_use(chunk)) {
        one.contents.reset(new (std::nothrow) char[zone.chunk_bytes()]);
        enough = one.contents != nullptr &&
                 driver_.copy_to_host(one.contents.get(), zone.base() + chunk * zone.chunk_bytes(),
                                      zone.chunk_bytes()) == kSuccess;
      }
      asleep_.push_back(std::move(one));
    }
  });
  if (!enough) {
    asleep_.clear();
    return false;
  }
  each_zone([](Zone& zone) { zone.give_all(true); });
  physical_.drop_spare();
  sleeping_ = true;
  return true;
}

bool Device::wake() {
  const std::lock_guard guard(lock_);
  const Scope scope(driver_, context_);
  return wake_up();
}

bool Device::wake_up() {
  for (; !asleep_.empty(); asleep_.pop_back()) {
    const Asleep& one = asleep_.back();
    const std::uint64_t bytes = one.zone->chunk_bytes();
    // Where the copy was refused before, the memory is there already.
    if (!one.zone->missing(one.chunk * bytes, 1).empty()) {
      const Handle handle = physical_.take(bytes);
      if (handle == 0 || !one.zone->fill(one.chunk, {handle})) {
        if (handle != 0) {
          physical_.give(handle, bytes);
        }
        return false;
      }
    }
    if (one.contents != nullptr) {
      physical_.set_error(
          driver_.copy_to_device(one.zone->base() + one.chunk * bytes, one.contents.get(), bytes));
      if (physical_.error() != kSuccess) {
        return false;
      }
    }
  }
  // The driver may still copy on its default stream, for which torch's streams do not wait.
  if (driver_.synchronize_stream(nullptr) != kSuccess) {
    return false;
  }
  sleeping_ = false;
  return true;
}

void Device::limit(double fraction) {
  const std::lock_guard guard(lock_);
  physical_.limit(fraction >= 1 ? UINT64_MAX
                                : static_cast<std::uint64_t>(
                                      fraction * static_cast<double>(physical_.total())));
}

void Device::reset_peaks() {
  const std::lock_guard guard(lock_);
  for (Pools* pools : {&figures_.allocation, &figures_.allocated_bytes, &figures_.requested_bytes,
                       &figures_.active, &figures_.active_bytes}) {
    pools->reset_peak();
  }
  physical_.reset_peak();
}

// A lack of memory is reported as one, since the program may retry with less. Any other error of the
// driver is reported by its name: a retry would not help.
Device::Result Device::refusal(std::uint64_t bytes) {
  if (const int error = physical_.error(); error != kSuccess && error != kOutOfMemory) {
    return {0,
            "CUDA error: " + driver_.name_of(error) + ", where " + human(bytes) + " was asked for",
            false};
  }
  ++figures_.refusals;
  std::size_t free = 0;
  std::size_t total = 0;
  driver_.memory_info(&free, &total);
  std::string text = "CUDA out of memory. Tried to allocate " + human(bytes) + ". GPU " +
                     std::to_string(number_) + " has a total capacity of " + human(total) +
                     " of which " + human(free) + " is free. This process has " +
                     human(physical_.reserved()) + " reserved by memomalloc, of which " +
                     human(figures_.allocated_bytes.all.current) + " is alive in tensors (" +
                     human(figures_.requested_bytes.all.current) + " requested)";
  if (physical_.limit() != UINT64_MAX) {
    text += "; " + human(physical_.limit()) + " allowed";
  }
  return {0, text + ".", true};
}

std::string Device::statistics() {
  const std::lock_guard guard(lock_);
  std::string text = "{";
  const auto number = [&](const std::string& name, std::uint64_t value) {
    text += (text.size() == 1 ? "\"" : ",\"") + name + "\":" + std::to_string(value);
  };
  const auto figure = [&](const std::string& name, const Figure& one) {
    number(name + ".current", one.current);
    number(name + ".peak", one.peak);
    number(name + ".allocated", one.allocated);
    number(name + ".freed", one.freed);
  };
  const auto pools = [&](const std::string& name, const Pools& all) {
    figure(name + ".all", all.all);
    figure(name + ".small_pool", all.small);
    figure(name + ".large_pool", all.large);
  };
  pools("allocation", figures_.allocation);
  pools("allocated_bytes", figures_.allocated_bytes);
  pools("requested_bytes", figures_.requested_bytes);
  pools("active", figures_.active);
  pools("active_bytes", figures_.active_bytes);
  number("reserved_bytes.all.current", physical_.reserved());
  number("reserved_bytes.all.peak", physical_.peak());
  number("num_ooms", figures_.refusals);
  for (const auto& [name, share] : {std::pair{"planned", figures_.planned},
                                    {"reused", figures_.reused},
                                    {"other", figures_.other}}) {
    number(std::string(name) + "_allocations", share.calls);
    number(std::string(name) + "_bytes", share.bytes);
  }
  number("misses", figures_.misses);
  number("occupied", figures_.occupied);
  number("moved_chunks", figures_.stolen);
  number("waits", figures_.waits);
  number("moving_microseconds", static_cast<std::uint64_t>(moving_.count() / 1000));
  number("driver_calls", physical_.calls());
  number("total_bytes", physical_.total());
  number("plans", plans_.all.size());
  number("plans_made", plans_.made);
  number("plans_fetched", plans_.fetched);
  number("plan_microseconds", static_cast<std::uint64_t>(plans_.seconds * 1e6));
  const Schedule* tallest = tallest_plan();
  number("plan_bytes", tallest != nullptr ? tallest->height : 0);
  number("lower_bound_bytes", tallest != nullptr ? tallest->lower_bound : 0);
  std::uint64_t iterations = 0;
  for (const auto& [stream, lane] : lanes_) {
    iterations += lane->learner.iterations();
  }
  number("iterations", iterations);
  number("streams", lanes_.size());
  return text + ",\"asleep\":" + (sleeping_ ? "true" : "false") + ",\"phase\":\"" + phase() + "\"}";
}

const char* Device::phase() const {
  for (const auto& [stream, lane] : lanes_) {
    if (lane->learner.serving() != nullptr) {
      return lane->learner.phase();
    }
  }
  return "learning";
}

const Schedule* Device::tallest_plan() const {
  const Schedule* tallest = nullptr;
  for (const auto& known : plans_.all) {
    if (tallest == nullptr || known->plan->height > tallest->height) {
      tallest = known->plan.get();
    }
  }
  return tallest;
}

StatusDevice Device::status() {
  const std::lock_guard guard(lock_);
  const Schedule* tallest = tallest_plan();
  StatusDevice row;
  put_text(row.phase, phase());
  row.number = static_cast<std::uint64_t>(number_);
  row.reserved_bytes = physical_.reserved();
  row.peak_reserved_bytes = physical_.peak();
  row.alive_bytes = figures_.requested_bytes.all.current;
  row.peak_alive_bytes = figures_.requested_bytes.all.peak;
  row.planned_bytes = figures_.planned.bytes;
  row.reused_bytes = figures_.reused.bytes;
  row.other_bytes = figures_.other.bytes;
  row.plan_bytes = tallest != nullptr ? tallest->height : 0;
  row.total_bytes = physical_.total();
  return row;
}

bool Device::valid() {
  const std::lock_guard guard(lock_);
  bool all = true;
  each_zone([&](Zone& zone) { all = all && zone.valid(); });
  return all;
}

}  // namespace memo::gpu
