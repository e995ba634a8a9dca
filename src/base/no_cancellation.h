// No thread may end inside malloc. Hot.
#pragma once

#include <pthread.h>

namespace memo::os {

// While one lives the calling thread is not cancelled: around what opens, reads and writes files.
class NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;

 private:
  int before_ = 0;
};

}  // namespace memo::os
