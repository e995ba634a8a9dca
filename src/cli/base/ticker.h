// Progress of a long computation on a terminal; Ctrl-C ends it early, with the best so far. Cold.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace memo::cli {

// From two seconds on, shows on stderr, if that is a terminal, what is done and for how long. Until
// it is destroyed, the first SIGINT sets stop() instead of ending the process; the second one ends
// it. An ignored one stays ignored. One at a time.
class Ticker {
 public:
  explicit Ticker(std::string what);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  // What is done from now on.
  void tell(std::string what);
  // A message of its own line on stderr, with the progress out of its way.
  void say(const std::string& message);

  static const std::atomic<bool>* stop();

 private:
  void show();

  void (*before_)(int);  // the handler of SIGINT
  std::string what_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace memo::cli
