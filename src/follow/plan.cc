// See plan.h. Hot.
#include "src/follow/plan.h"

#include <cstring>
#include <new>

#include "src/base/bits.h"
#include "src/base/os.h"

namespace memo {
namespace {

// Copies records to `to`, and goes past them.
template <typename Record>
const Record* put(char*& to, const Record* records, std::uint64_t count) {
  static_assert(alignof(Record) <= 8 && sizeof(Record) % 4 == 0);
  auto* copy = reinterpret_cast<Record*>(to);
  if (count != 0) {
    std::memcpy(copy, records, count * sizeof(Record));
  }
  to += count * sizeof(Record);
  return copy;
}

}  // namespace

Plan Plan::copy_of(const Schedule& schedule) {
  const SymbolicPlan* symbolic = schedule.symbolic;
  const std::uint64_t behind =
      symbolic != nullptr
          ? symbolic->count * sizeof(SymbolicStep) + symbolic->support_count * sizeof(Support)
          : ContextIndex::words(schedule.count) * sizeof(std::uint32_t);
  const std::uint64_t bytes = sizeof(Body) + schedule.count * sizeof(Step) + behind;
  Plan plan;
  auto* piece = static_cast<char*>(os::map(bytes));
  if (piece == nullptr) {
    return plan;
  }
  plan.body_ = new (piece) Body{.schedule = schedule, .symbolic = {}, .index = {}, .bytes = bytes};
  Schedule& copy = plan.body_->schedule;
  piece += sizeof(Body);
  copy.steps = put(piece, schedule.steps, schedule.count);
  if (symbolic == nullptr) {
    plan.body_->index.build(copy, reinterpret_cast<std::uint32_t*>(piece));
    return plan;
  }
  SymbolicPlan& rules = plan.body_->symbolic;
  rules = *symbolic;
  rules.steps = put(piece, symbolic->steps, symbolic->count);
  // What a file tells has none, and says so by a null pointer.
  rules.supports =
      symbolic->complete() ? put(piece, symbolic->supports, symbolic->support_count) : nullptr;
  copy.symbolic = &rules;
  return plan;
}

Plan& Plan::operator=(Plan&& other) noexcept {
  if (this != &other) {
    free();
    body_ = other.body_;
    other.body_ = nullptr;
  }
  return *this;
}

void Plan::free() {
  if (body_ != nullptr) {
    os::unmap(body_, body_->bytes);
    body_ = nullptr;
  }
}

}  // namespace memo
