// A CUDA driver with two GPUs that are none: streams are queues whose work is done when the test
// says so, events pass late, and any call can be refused. Linked into the unit tests, and built as
// a libcuda.so.1 whose memory is a file's, for the real shared object.
//
// It watches: memory may not be unmapped while a block in it is alive, or work on it unfinished;
// and what would end a capture may be called in relaxed mode only while one goes on.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fake {

using Address = std::uint64_t;
using Stream = void*;

constexpr int kDevices = 2;
constexpr Address kAddresses = Address{1} << 47;  // that a process has
inline const Stream kSecondDefault =
    reinterpret_cast<Stream>(2);  // the second device's null stream

struct Queue {
  std::uint64_t issued = 0;  // pieces of work
  std::uint64_t done = 0;
  bool capturing = false;
};

// Work on [lower, upper) that is the piece `ticket` of a stream.
struct Use {
  Address lower;
  Address upper;
  Stream stream;
  std::uint64_t ticket;
};

class World {
 public:
  // Everything is as after a start. `real`: memory can be written, and what is not mapped cannot.
  void restart(std::uint64_t memory, bool real);

  // One more piece of work on the stream.
  std::uint64_t issue(Stream stream) { return ++queues[stream].issued; }
  // Some streams get on, by some of their work.
  void progress(std::mt19937_64& random);
  void finish(Stream stream) { queues[stream].done = queues[stream].issued; }
  [[nodiscard]] bool done(Stream stream, std::uint64_t ticket) {
    return queues[stream].done >= ticket;
  }
  // A block that is alive; one that was freed is used until the work of `uses` is done.
  void alive(Address lower, Address upper) { blocks[lower] = upper; }
  void freed(Address lower, std::vector<Use> uses);
  // Unfinished work on [lower, upper) of another stream than `stream`; a block alive there.
  [[nodiscard]] bool disturbed(Address lower, Address upper, Stream stream);
  [[nodiscard]] bool unfinished(Address lower, Address upper);
  [[nodiscard]] bool inhabited(Address lower, Address upper) const;
  [[nodiscard]] bool mapped(Address lower, Address upper) const;
  [[nodiscard]] bool capturing() const;  // any stream is
  // What must never happen has: noted, or the process ends if that is `fatal`.
  void fault(const std::string& text);

  // The n-th call from now on that could fail, fails; 0: none. With `ever`, all from there on.
  std::uint64_t refuse_at = 0;
  bool refuse_ever = false;
  bool has_virtual_memory = true;
  std::size_t granularity = std::size_t{2} << 20;
  int no_handle = 0;          // the error of each call for memory; 0: there is some
  unsigned slow = 0;          // milliseconds that each call for memory takes
  bool capture_next = false;  // a capture begins just before the next event is recorded
  bool asleep = false;        // blocks that are alive may lose their memory
  std::uint64_t occasions = 0;
  bool refused();

  std::map<Stream, Queue> queues;
  std::map<Address, Address> blocks;
  std::vector<Use> uses;
  std::vector<std::string> faults;
  bool fatal = false;  // where no test reads them: as libcuda.so.1

  struct Mapping {
    Address upper;
    std::uint64_t handle;
    bool accessible;
    std::set<int> devices;  // that may read and write
  };
  struct Memory {
    std::uint64_t bytes;
    std::uint64_t place;  // in the file
    bool mapped;
    int device;
  };
  struct Event {
    int device;
    Stream stream;
    std::uint64_t ticket;
    bool captured = false;  // recorded into a graph
  };
  std::map<Address, Mapping> mappings;
  std::map<std::uint64_t, Memory> handles;
  std::map<void*, Event> events;
  std::set<int> contexts;           // devices that have one
  std::map<Stream, int> device_of;  // where it is not the first
  bool peers = false;               // each device can reach the other's memory
  bool refuse_peers = false;        // they say so, and get no access
  std::uint64_t memory = 0;         // of each device
  std::uint64_t used = 0;           // of all
  std::uint64_t used_by[kDevices] = {};
  std::uint64_t addresses = 0;  // reserved
  std::uint64_t calls = 0;
  bool real = false;
  std::vector<std::pair<void*, std::size_t>> reserved;  // of the process' addresses, if so
  int file = -1;
  std::uint64_t file_end = 0;
  std::uint64_t next_handle = 1;
  std::uint64_t next_event = 1;
  Address next_address = Address{1} << 45;
  int process = 0;
};

World& world();

}  // namespace fake
