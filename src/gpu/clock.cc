// See clock.h. Cold.
#include "src/gpu/clock.h"

namespace memo::gpu {

Clock::~Clock() {
  for (const Mark& mark : marks_) {
    driver_.destroy_event(mark.event);
  }
  for (const Event event : spare_) {
    driver_.destroy_event(event);
  }
}

void Clock::freed() {
  if (++frees_ >= kFreesAnEpoch) {
    tick();
  }
}

void Clock::tick() {
  if (frees_ == 0 || capturing()) {
    return;
  }
  over();  // a loop that never asks for it would need an event for each epoch
  Event event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (driver_.create_event(&event, kWithoutTiming) != kSuccess) {
    return;  // the epoch goes on
  }
  if (driver_.record_event(event, stream_) != kSuccess) {
    spare_.push_back(event);
    return;
  }
  marks_.push_back({now_, event});
  ++now_;
  frees_ = 0;
}

std::uint64_t Clock::over() {
  while (!marks_.empty()) {
    const int state = driver_.query_event(marks_.front().event);
    if (state == kSuccess) {
      over_ = marks_.front().epoch + 1;
    } else if (state != kCapturedEvent) {
      break;
    }
    // Where a capture began before the event was recorded, the next mark tells of its epoch, too.
    spare_.push_back(marks_.front().event);
    marks_.pop_front();
  }
  return over_;
}

bool Clock::wait() {
  tick();
  if (capturing() || driver_.synchronize_stream(stream_) != kSuccess) {
    return false;
  }
  over();
  over_ = ++now_;
  frees_ = 0;
  return true;
}

bool Clock::capturing() const {
  int state = 0;
  return driver_.is_capturing(stream_, &state) != kSuccess || state != 0;
}

}  // namespace memo::gpu
