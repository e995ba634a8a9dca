"""Rows of run.py on limits of control groups."""

from kinds import PRELOAD, UNIT

LIMIT_ROWS = (
    ("the machine's pressure counts where the group's is told", "src/base/group_limit.cc",
     "waited(groups ? own.text() : machine)", "waited(machine)",
     UNIT, "group limit: tasks that wait for memory are pressure, of the group or of the machine"),
    ("who waits for memory is not asked", "src/serve/headroom.h",
     "(look(0) || group_.pressed(machines_pressure))", "look(0)",
     UNIT, "headroom: memory is short while tasks wait for it, whatever is left"),
    ("a parent group's limit does not count", "src/base/group_limit.cc",
     "    if (size == root_) {\n      break;", "    if (true) {\n      break;",
     UNIT, "group limit: version 2, the least up the tree, without the page cache"),
    ("the page cache counts as held", "src/base/group_limit.cc",
     "sum += os::number_in(line);", "sum += 0;",
     UNIT, "group limit: version 1, where it has the memory"),
    ("what is taken bit by bit is never looked at", "src/serve/headroom.h",
     "    return less_than(room, still);", "    return false;",
     UNIT, "headroom: memory that is taken bit by bit is noticed before the limit"),
    ("what is taken and not written is forgotten at the next look", "src/serve/headroom.h",
     "    promised_.store(still, std::memory_order_relaxed);\n", "",
     UNIT, "headroom: what was taken and is not yet written counts"),
    ("what is freed unwritten is still waited for", "src/serve/headroom.h",
     "std::min(promised - std::min(promised, written), alive)", "promised - std::min(promised, written)",
     UNIT, "headroom: what was taken and is not yet written counts"),
    ("a loop's slab is held while a control group's limit is near", "src/engine/hands.cc",
     "    slab.give_back_unused();\n", "",
     PRELOAD, "outside world: a control group"),
)
