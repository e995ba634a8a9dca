// Which thread owns each lane, as the system numbers threads, for the status page. Any thread.
#pragma once

#include <cstdint>

namespace memo {

// The calling thread has come by a lane, or leaves it.
void note_lane_thread();
void leave_lane_thread();
// The number of the lane's thread; 0: none, or nobody has asked for it.
std::uint32_t thread_of_lane(std::uint32_t lane);

}  // namespace memo
