// When a lane asks its host for plans that lie outside the process. Hot to ask.
#pragma once

#include <cstdint>

#include "src/engine/shared.h"
#include "src/follow/plan_name.h"
#include "src/trace/signature.h"

namespace memo {

// For a call of a lane that no plan places, the latest of `window`: the host adds the plans that
// have it, and now and then looks whether there are new ones.
void fetch_plans(const EngineHost& host, const CallWindow& window);

}  // namespace memo
