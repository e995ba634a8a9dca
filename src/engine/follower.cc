#include "src/engine/follower.h"

#include <algorithm>

#include "src/base/tuning.h"

namespace memo {
namespace {

// True if `plan` is rather to be taken than `found`, which fits, too. Where neither is known to be
// the command's own, a wrong guess is to cost little memory.
bool is_likelier(const StoredPlan& plan, const StoredPlan& found, const StoredPlan* preferred) {
  if (&plan == preferred || &found == preferred) {
    return &plan == preferred;
  }
  const Maker a = std::max(plan.maker, Maker::kVersion);
  const Maker b = std::max(found.maker, Maker::kVersion);
  return a != b ? a > b : plan.best()->height < found.best()->height;
}

// True if what `plan` says of the stream the one on trial says as well: a shorter loop is a part of
// its iteration, and one as short has the same few blocks. To go over to it would cost what is
// noted.
bool shows_no_more(const StoredPlan& plan, const StoredPlan& tried) {
  return plan.made->symbolic == nullptr &&
         (plan.iteration < tried.iteration ||
          (plan.iteration == tried.iteration && plan.iteration < tuning::kLongLoop));
}

// Calls in a row that must fit a parametric plan, which a few fit more easily than a fixed one.
std::uint32_t fit_of_shape() {
  return 4 * tuning::kFit;
}

}  // namespace

void Follower::restart() {
  for (Place& place : places_) {
    place.cursor = Cursor();
  }
  recent_ = Recent();
  window_ = CallWindow();
}

Follower::Found Follower::find(PlanStore& store, const StoredPlan* serving, std::uint64_t tried) {
  const bool trial = tried != 0;
  const StoredPlan* preferred = trial ? nullptr : serving;
  Found found;
  const bool fresh = serving == nullptr && fresh_ != 0;
  fresh_ -= fresh_ != 0 ? 1 : 0;
  store.for_each([&](StoredPlan& plan, std::uint32_t slot) {
    Place& place = place_of(slot, plan);
    const bool in_vain = trial && shows_no_more(plan, *serving);
    const std::uint64_t needed = in_vain ? UINT64_MAX
                                         : std::max(calls_needed(place, plan, fresh, trial),
                                                    std::min<std::uint64_t>(tried, plan.iteration));
    if (fits(place.cursor, plan, recent_, needed) &&
        (found.plan == nullptr || is_likelier(plan, *found.plan, preferred))) {
      if (found.plan != nullptr) {
        PlanStore::release(*found.plan);
      }
      found = {.plan = &plan, .position = place.cursor.position(), .first = place.cursor.first()};
      store.use(plan);
    }
  });
  return found;
}

Follower::Place& Follower::place_of(std::uint32_t slot, const StoredPlan& plan) {
  Place& place = places_[slot];
  if (place.generation != plan.generation) {
    place = Place();
    place.generation = plan.generation;
    catch_up(place.cursor, plan);
  }
  return place;
}

// A plan that has just come was not there for the calls before the last one: another thread has
// made it, or it was fetched since they are its own.
void Follower::catch_up(Cursor& cursor, const StoredPlan& plan) const {
  Recent recent;
  for (std::uint32_t i = 0; i + 1 < window_.known(); ++i) {
    recent.add(window_.size(i));
    fits(cursor, plan, recent, UINT64_MAX);
  }
}

void Follower::distrust(std::uint32_t slot, const StoredPlan& plan, bool unfit) {
  std::uint32_t& failed = place_of(slot, plan).failed;
  if (unfit) {
    failed = std::min(std::max(failed, 2U) + 1, tuning::kMaxFitLog2 + 1);
  } else if (failed < 2) {
    ++failed;
  }
}

std::uint64_t Follower::calls_needed(const Place& place, const StoredPlan& plan, bool fresh,
                                     bool trial) {
  const Schedule& schedule = *plan.made;
  if (fresh && place.failed == 0 && schedule.symbolic == nullptr && plan.walked) {
    return kContext;
  }
  const std::uint64_t fit = schedule.symbolic != nullptr ? fit_of_shape() : tuning::kFit;
  if (place.failed < 2) {
    return fit;
  }
  if (trial) {
    return UINT64_MAX;
  }
  const std::uint64_t more = place.failed > 2 ? std::uint64_t{schedule.count} << (place.failed - 1)
                                              : schedule.count / tuning::kFitAgain;
  return fit + more;
}

// Takes the newest of the recent sizes; true if the plan has fitted for `needed` calls.
bool Follower::fits(Cursor& cursor, const StoredPlan& plan, const Recent& recent,
                    std::uint64_t needed) {
  const Schedule& schedule = *plan.made;
  if (schedule.symbolic != nullptr) {
    cursor.seek(*schedule.symbolic, recent.latest());
    return cursor.sure(*schedule.symbolic, fit_of_shape()) &&
           (needed == fit_of_shape() || cursor.run() >= needed);
  }
  cursor.seek(schedule, plan.made.index(), recent);
  return cursor.run() >= needed;
}

}  // namespace memo
