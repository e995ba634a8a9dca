"""Rows of MUTATIONS (run.py) on what follows a stream: plans, places in them, layouts of shapes."""

from kinds import UNIT

FOLLOW_ROWS = (
    ("a place in a plan is taken for one in its successor", "src/engine/plan_store.cc",
     "if (place.generation != plan.generation) {", "if (place.generation == UINT64_MAX) {",
     UNIT, "follower: what has fitted a plan does not count for its successor"),
    ("a plan that was moved away frees its memory as well", "src/follow/plan.cc",
     "    body_ = other.body_;\n    other.body_ = nullptr;\n", "    body_ = other.body_;\n",
     UNIT, "plan: moves, and is what it was copied from"),
    ("a call that is no step moves the place", "src/follow/cursor.cc",
     "  if (found == kNoStep) {\n    return nullptr;", "  if (found == kNoStep) {\n    ++position_;\n    return nullptr;",
     UNIT, "cursor: a served fixed plan does what a plain search of its steps does"),
    ("a place that is sought is kept after a call that is no step", "src/follow/cursor.cc",
     "  position_ = index.find(schedule, recent, StepIndex{0});\n  run_ = 0;\n", "  run_ = 0;\n",
     UNIT, "cursor: a place in a fixed plan is sought as a plain search of its steps does"),
    ("an iteration's first size is kept for the next", "src/follow/cursor.cc",
     "    if (position_ == plan.end()) {", "    if (position_ > plan.end()) {",
     UNIT, "cursor: a parametric plan's place and first size are what trying them all finds"),
    ("a step that the engine does not see is waited for", "src/follow/cursor.cc",
     "plan.hidden(position_, first_)) {", "plan.hidden(position_, 0)) {",
     UNIT, "cursor: a parametric plan's place and first size are what trying them all finds"),
    ("a plan that misses much for long stays healthy", "src/follow/health.cc",
     "poor_windows_ = poor ? poor_windows_ + 1 : 0;", "poor_windows_ = 0;",
     UNIT, "health: is lost and unfit when its windows say so"),
    ("a plan that is shorter is followed from the last one's step", "src/follow/placer.h",
     "    *this = Placer();\n    change(schedule, index, at);\n", "    change(schedule, index, schedule_ ? cursor_ : at);\n",
     UNIT, "placer: a shorter plan is followed from its own first step"),
    ("a shape is laid out with the sizes of another", "src/follow/layout.cc",
     "sizes_[i] = plan_->steps[i].rule.bytes(first_);", "sizes_[i] = plan_->steps[i].rule.bytes(largest_);",
     UNIT, "engine: sizes that follow from the iteration's first are served"),
)
