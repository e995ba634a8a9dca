// The progress line and the handler of Ctrl-C. Cold.
#include "src/cli/base/ticker.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace memo::cli {
namespace {

std::atomic<bool> stop_flag{false};

void on_interrupt(int) {
  stop_flag = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

Ticker::Ticker(std::string what)
    : before_(std::signal(SIGINT, on_interrupt)), what_(std::move(what)) {
  stop_flag = false;
  if (before_ == SIG_IGN) {
    std::signal(SIGINT, SIG_IGN);
  }
  const char* terminal = std::getenv("TERM");
  const bool moves = terminal != nullptr && std::string_view(terminal) != "dumb";
  if (moves && isatty(STDERR_FILENO) != 0) {
    thread_ = std::thread([this] { show(); });
  }
}

Ticker::~Ticker() {
  if (thread_.joinable()) {
    {
      const std::scoped_lock lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  std::signal(SIGINT, before_);
}

void Ticker::tell(std::string what) {
  const std::scoped_lock lock(mutex_);
  what_ = std::move(what);
}

void Ticker::say(const std::string& message) {
  const std::scoped_lock lock(mutex_);
  std::fprintf(stderr, "%s%s\n", thread_.joinable() ? "\r\033[K" : "", message.c_str());
}

const std::atomic<bool>* Ticker::stop() {
  return &stop_flag;
}

void Ticker::show() {
  constexpr int kQuietSeconds = 2;
  std::unique_lock lock(mutex_);
  for (int seconds = 1; !wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; });
       ++seconds) {
    if (seconds >= kQuietSeconds) {
      std::fprintf(stderr, "\r\033[K%s: %d s (Ctrl-C stops)", what_.c_str(), seconds);
    }
  }
  std::fputs("\r\033[K", stderr);
}

}  // namespace memo::cli
