"""Rows of run.py on limits of control groups."""

from kinds import PRELOAD, UNIT

LIMIT_ROWS = (
    ("a parent group's limit does not count", "src/base/group_limit.cc",
     "    if (size == root_) {\n      break;", "    if (true) {\n      break;",
     UNIT, "group limit: version 2, the least up the tree, without the page cache"),
    ("the page cache counts as held", "src/base/group_limit.cc",
     "sum += os::number_in(line);", "sum += 0;",
     UNIT, "group limit: version 1, where it has the memory"),
    ("what is taken bit by bit is never looked at", "src/serve/headroom.h",
     "    fresh_.store(0, std::memory_order_relaxed);\n    return scarce(taken);", "    return false;",
     UNIT, "headroom: memory that is taken bit by bit is noticed before the limit"),
    ("a loop's slab is held while a control group's limit is near", "src/engine/hands.cc",
     "    slab.give_back_unused();\n", "",
     PRELOAD, "outside world: a control group"),
)
