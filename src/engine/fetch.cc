#include "src/engine/fetch.h"

#include "src/base/guard.h"
#include "src/base/interrupts.h"
#include "src/base/own_stack.h"
#include "src/base/tuning.h"
#include "src/engine/catalogue.h"

namespace memo {

void fetch_plans(const EngineHost& host, const CallWindow& window) {
  if (!host.outside->opened() || !window.full()) {
    return;
  }
  const std::uint64_t key = window.key();
  host.outside->note_beginning(key);
  const bool due = window.calls() % tuning::kCallsALook == 0;
  if (due || host.outside->has(key)) {
    const NoInterrupts whole;
    const RecursionGuard guard;
    os::run_on_own_stack([&] { host.fetch(guard, key, due); });
  }
}

}  // namespace memo
