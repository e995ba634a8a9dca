"""What each iteration of measure.py's loop met: for bench/tail.py, which names the cause of slow ones.

Asked for by the variable MEASURE_EACH, a file that gets a JSON list, an object an iteration. Looks are taken between the timed steps, and ask for no large block.
"""

import json
import os
import resource
import time

from loaded_library import library_stats

# Counters of ours that stand still while a program is served as planned.
TELLING = frozenset("other_allocations fallback_allocations plans plans_loaded shapes lowered diverged released "
                    "relieved room_made".split())
ALL_SIGNALS = 60  # of 64: two cannot be blocked, and the C library keeps two for itself
TICK_MS = 1e3 / os.sysconf("SC_CLK_TCK")


def is_of_the_library(thread):
    """True of a thread that blocks all signals that can be blocked, as the library's own do."""
    with open(f"/proc/self/task/{thread}/status", encoding="ascii") as file:
        blocked = next(line for line in file if line.startswith("SigBlk:"))
    return bin(int(blocked.split()[1], 16)).count("1") >= ALL_SIGNALS


def stolen_ms():
    """What the host has taken from this machine's processors since it started, ms, in ticks."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) * TICK_MS


class Look:
    """A moment: processor time, page faults and waiting of this process so far."""

    def __init__(self, known):
        """`known` remembers of each thread whether it is the library's."""
        self.threads, self.own = {}, {}
        for thread in os.listdir("/proc/self/task"):
            try:
                if thread not in known:
                    known[thread] = is_of_the_library(thread)
                with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:
                    ran, waited = map(int, file.read().split()[:2])
                (self.own if known[thread] else self.threads)[thread] = ran, waited
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended
        self.processor = time.process_time_ns()
        self.faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.stolen = stolen_ms()
        self.counters = {name: value for name, value in (library_stats() or {}).items() if name in TELLING}

    def since(self, then):
        """The difference, in ms and counts. A thread that has ended meanwhile is in the processor time alone."""
        ran = [times[0] - then.own.get(thread, (0, 0))[0] for thread, times in self.own.items()]
        waited = [times[1] - then.threads.get(thread, (0, 0))[1] for thread, times in self.threads.items()]
        return {"cpu_ms": (self.processor - then.processor) / 1e6,
                "library_ms": sum(ran) / 1e6,
                "waited_ms": max(waited) / 1e6,
                "faults": self.faults - then.faults,
                "stolen_ms": self.stolen - then.stolen,
                "counters": {name: value - then.counters[name] for name, value in self.counters.items()
                             if value > then.counters[name]}}


class Records:
    """One for each iteration, if they are asked for; else nothing is looked at."""

    def __init__(self):
        self.path, self.known, self.found, self.then = os.environ.get("MEASURE_EACH"), {}, [], None

    def begin(self):
        if self.path:
            self.then = Look(self.known)

    def end(self, milliseconds):
        if self.path:
            self.found.append({"ms": milliseconds} | Look(self.known).since(self.then))

    def write(self):
        if self.path:
            with open(self.path, "w", encoding="ascii") as file:
                json.dump(self.found, file)
