"""Rows of MUTATIONS (run.py) on what servers need: workers that report, a look inside, nothing lost at the end."""

from kinds import PRELOAD, UNIT
from status_rows import STATUS_ROWS

SERVER_ROWS = (
    *STATUS_ROWS,
    ("children that do nothing large report", "preload/reporter.cc",
     " || (engine.forked() && large_calls() == 0)", "",
     PRELOAD, "workers: forked children report"),
    ("children of vfork report", "preload/reporter.cc",
     "!engine.here() || getpid() != number || ", "!engine.here() || ",
     PRELOAD, "workers: forked children report"),
    ("forked children stay silent", "preload/reporter.cc",
     "(engine.forked() && large_calls() == 0)", "engine.forked()",
     PRELOAD, "workers: forked children report"),
    ("a child writes over its parent's statistics", "preload/reports.cc",
     "(!is_forked_child() || names_process(path))", "true",
     PRELOAD, "workers: a child keeps"),
    ("reports wait for the end of the process", "preload/keeper.cc",
     "!reports_are_due(os::nanoseconds())", "true",
     PRELOAD, "workers: nothing waits"),
    ("the library's files are in the program's table of descriptors", "src/base/os.cc",
     "STDERR_FILENO + 1, ~0U, kUnshare) == 0", "STDERR_FILENO + 1, ~0U, 4U) == 0",
     UNIT, "os: what a thread with descriptors of its own"),
    ("a process that only forks has a thread", "src/engine/lane.cc",
     "serves_.load(std::memory_order_relaxed) &&\n      (shared_->reports ||",
     "(shared_->reports ||",
     PRELOAD, "workers: nothing waits"),
    ("a worker's plans take the place of another's", "preload/plans.cc",
     "saved_file == FileMark::of(path)", "true",
     PRELOAD, "workers: workers share"),
    ("plans that were only read are saved", "preload/plans.cc",
     "held.count() != 0 && held.mark() != saved_mark", "held.count() != 0",
     PRELOAD, "workers: workers share"),
    ("a file that cannot be written is told of each time", "preload/plans.cc",
     "    complained = true;\n", "",
     PRELOAD, "workers: reports that cannot"),
)
