// How far the work on one stream has come, in epochs: memory that was freed in an epoch that is
// over may be unmapped, or given to another stream. Within its stream memory is used again at once,
// since work on a stream runs in order.
//
// Under the device's lock. Cold.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "src/gpu/driver.h"

namespace memo::gpu {

class Clock {
 public:
  Clock(const Driver& driver, Stream stream) : driver_(driver), stream_(stream) {}
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  ~Clock();

  [[nodiscard]] Stream stream() const { return stream_; }
  // What is freed now is freed in this epoch.
  [[nodiscard]] std::uint64_t now() const { return now_; }
  // A block was freed: after some of them a new epoch begins, so that epochs end in time.
  void freed();
  // All work that was given to the stream until now belongs to epochs before now(). Does nothing
  // while the stream is captured: an event would become a part of the graph.
  void tick();
  // Epochs before this one are over. Asks the driver, without waiting.
  std::uint64_t over();
  // Waits for the stream; then every epoch before now() is over. False while it is captured.
  bool wait();
  [[nodiscard]] bool capturing() const;

 private:
  struct Mark {
    std::uint64_t epoch;  // this one and those before it are over once the event has passed
    Event event;
  };
  static constexpr std::uint32_t kFreesAnEpoch = 32;

  const Driver& driver_;
  Stream stream_;
  std::uint64_t now_ = 1;
  std::uint64_t over_ = 1;
  std::uint32_t frees_ = 0;  // in this epoch
  std::deque<Mark> marks_;   // oldest first
  std::vector<Event> spare_;
};

}  // namespace memo::gpu
