#include "src/engine/upkeep.h"

#include "src/base/os.h"
#include "src/base/tuning.h"

namespace memo {

void Upkeep::give_back() {
  if (!forks_.here()) {
    forks_.notice();
  }
  for (std::uint32_t i = 0; i < lanes_.count(); ++i) {
    lanes_.at(i).give_back();
  }
  if (lanes_.opened()) {
    lanes_.shared().slabs.give_back_free(Nanos{0}, os::coarse_nanoseconds());
  }
  trim();
}

bool Upkeep::trim() {
  return lanes_.opened() && lanes_.shared().pool.trim() + lanes_.shared().pool.retreat() != 0;
}

bool Upkeep::relieve(std::uint64_t bytes) {
  if (!lanes_.opened() || t_state.inside != 0) {
    return false;
  }
  const std::uint64_t held = lanes_.committed_bytes();
  if (bytes > held || relief_.waits()) {
    return false;
  }
  give_back();
  if (lanes_.host().trim_next != nullptr) {
    const RecursionGuard guard;
    lanes_.host().trim_next();
  }
  const std::uint64_t now = lanes_.committed_bytes();
  lanes_.passed_on.relieved.add_from_any();
  if (held >= now + bytes) {
    relief_.restart();
  } else {
    relief_.refused(tuning::kMaxWait);
  }
  return true;
}

bool Upkeep::tick(Nanos now) {
  if (!lanes_.opened()) {
    return false;
  }
  Pool& pool = lanes_.shared().pool;
  bool quiet = lanes_.count() != 0;
  const bool scarce = pool.headroom().is_short();
  for (std::uint32_t i = 0; i < lanes_.count(); ++i) {
    quiet = lanes_.at(i).tick(now, scarce) && quiet;
  }
  lanes_.shared().slabs.give_back_free(tuning::kAtRest, os::coarse_nanoseconds());
  // What is freed at rest goes back, too; what the system refuses to take is not tried each time.
  const auto kept = [&] { return pool.held().dirty_bytes(); };
  if (scarce || (quiet && (left_ == UINT64_MAX || kept() > left_))) {
    trim();
  } else {
    pool.trim_rest();
  }
  if (!scarce) {
    pool.collapse_long_lived();
  }
  left_ = quiet ? kept() : UINT64_MAX;
  return quiet && lanes_.shared().slabs.bytes.load(std::memory_order_relaxed) == 0;
}

}  // namespace memo
