#include "src/serve/server.h"

#include <algorithm>

#include "src/base/bits.h"
#include "src/base/tuning.h"
#include "src/serve/symbolic.h"

namespace memo {
void Server::start(const Schedule* schedule, const ContextIndex* index, std::uint32_t position) {
  *this = Server();
  change(schedule, index, position);
}

void Server::change(const Schedule* schedule, const ContextIndex* index, std::uint32_t position) {
  schedule_ = schedule;
  index_ = index;
  position_ = position;
}

Server::Placement Server::next(std::uint64_t size, std::uint64_t alignment, PageMap& pages) {
  for (std::uint32_t i = 0; i + 1 < kContext; ++i) {
    recent_[i] = recent_[i + 1];
  }
  recent_[kContext - 1] = size;

  Placement placement;
  const Step& expected = schedule_->steps[position_];
  const bool in_place =
      expected.size == size || (expected.elastic && SymbolicPlan::within(size, expected.size));
  in_order_ = in_place ? in_order_ + static_cast<std::uint32_t>(in_order_ != UINT32_MAX) : 0;
  if (!in_place && !find_place(size)) {
    judge(false, size);
    placement.miss = run_ <= 1 ? Miss::kSize : Miss::kOrder;
    return placement;
  }
  judge(true, size);
  const Step& step = schedule_->steps[position_];
  if (++position_ == schedule_->count) {
    position_ = 0;
    placement.wrapped = true;
  }
  if (step.offset == kUnplanned) {
    placement.miss = Miss::kLeftOut;
  } else if (alignment > kGranule && (step.offset & (alignment - 1)) != 0) {
    placement.miss = Miss::kAlignment;
  } else {
    const PageMap::Claim claim =
        pages.claim(step.offset / kGranule, (size + kGranule - 1) / kGranule);
    placement.miss = claim.granted ? Miss::kNone : Miss::kOccupied;
    placement.offset = step.offset;
    placement.dirty = claim.dirty != 0;
  }
  return placement;
}

// Moves position_ to the step that this call is most likely to be; false if none is likely.
bool Server::find_place(std::uint64_t size) {
  const std::uint32_t count = schedule_->count;
  for (std::uint32_t ahead = 1; ahead <= std::min(tuning::kMaxSkipped, count - 1); ++ahead) {
    const std::uint32_t step = (position_ + ahead) % count;
    if (schedule_->steps[step].size == size) {
      position_ = step;
      return true;
    }
  }
  const std::uint32_t step = index_->find(*schedule_, recent_, position_);
  if (step == kNoStep) {
    return false;
  }
  position_ = step;
  return true;
}

bool Server::unfit() const {
  return poor_windows_ >= tuning::kMaxPoorWindows;
}

void Server::judge(bool matched, std::uint64_t size) {
  ++calls_;
  bytes_ += size;
  missed_bytes_ += matched ? 0 : size;
  run_ = matched ? 0 : run_ + 1;
  misses_ += matched ? 0 : 1;
  if (calls_ >= std::max(tuning::kJudgedCalls, schedule_->count) ||
      run_ >= tuning::kMaxMissesInRow) {
    const bool poor =
        misses_ * tuning::kPoorCalls > calls_ || missed_bytes_ * tuning::kPoorBytes > bytes_;
    poor_windows_ = poor ? poor_windows_ + 1 : 0;
    lost_ = misses_ * 2 > calls_ || run_ >= tuning::kMaxMissesInRow ||
            poor_windows_ >= tuning::kMaxPoorWindows;
    calls_ = misses_ = 0;
    bytes_ = missed_bytes_ = 0;
  }
}

}  // namespace memo
