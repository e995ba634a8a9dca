"""Rows of run.py on torch's own functions for tensors."""

from kinds import PRELOAD

C10_ROWS = (
    ("an allocator inside torch gets a block of ours", "preload/c10.cc",
     "  if (g_process.engine.owns(pointer)) {", "  if (false) {", PRELOAD, "c10_functions [default]"),
    ("torch's flags that fill blocks do not count", "preload/c10.cc",
     " && !*c10.zero_fill && !*c10.junk_fill;", ";", PRELOAD, "c10_functions [default]"),
    ("torch's functions are not found where it was loaded", "preload/c10_callers.cc",
     "    if (symbol == nullptr && local_ != nullptr) {", "    if (false) {",
     PRELOAD, "c10_functions [pass-through]"),
    ("a torch with an allocator of its own is left alone", "preload/c10_callers.cc",
     "    } else if (entry->d_tag == DT_GNU_HASH) {", "    } else if (false) {", PRELOAD, "c10_functions [default]"),
    ("a torch that lacks one of the two functions is served", "preload/c10_callers.cc",
     "found.alloc != nullptr && found.free != nullptr && !goes_through_malloc(*library)",
     "found.alloc != nullptr && !goes_through_malloc(*library)", PRELOAD, "c10_functions [default]"),
    ("flags that are not found count as not set", "preload/c10.cc",
     "return c10.zero_fill != nullptr && c10.junk_fill != nullptr && !*c10.zero_fill && !*c10.junk_fill;",
     "return c10.zero_fill == nullptr || (!*c10.zero_fill && !*c10.junk_fill);", PRELOAD, "c10_functions [default]"),
)
